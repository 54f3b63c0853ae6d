"""Streams and events.

A device runs everything in one order, so work on two of its streams never overlaps. Streams and events still say what
has been submitted and what is done, wait for each other, and time.
"""

from types import TracebackType
from typing import Any

import torch
from torch.types import Device

from torchtpu import _C
from torchtpu.tpu._index import device_index

_DEVICE_TYPE: int = torch._C._autograd.DeviceType.PrivateUse1.value


class Stream(torch.Stream):
    """A stream of a tpu device, the current one by default. A negative priority is high."""

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs: Any) -> "Stream":
        if kwargs:  # stream_id, device_index, device_type
            return super().__new__(cls, priority=priority, **kwargs)
        return super().__new__(cls, torch.device("tpu", device_index(device)), priority=priority)

    @property
    def priority(self) -> int:
        return _C._stream_priority(self.stream_id)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority."""
        return 0, -1

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Marks what has been submitted to the stream so far."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __repr__(self) -> str:
        return f"<torch.tpu.Stream device={self.device} id={self.stream_id}>"


class Event(torch.Event):
    """A mark in the order of a device's work."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> "Event":
        if interprocess:
            raise NotImplementedError("torch.tpu.Event: events cannot be shared between processes")
        return super().__new__(cls, "tpu", enable_timing=enable_timing, blocking=blocking)

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds from this mark to the other."""
        return _C._elapsed_ms(self, end_event)

    def __repr__(self) -> str:
        return f"<torch.tpu.Event {self.event_id:#x}>" if self.event_id else "<torch.tpu.Event not recorded>"


def _stream(stream_id: int, index: int) -> Stream:
    return Stream(stream_id=stream_id, device_index=index, device_type=_DEVICE_TYPE)


def current_stream(device: Device = None) -> Stream:
    """The stream that this thread's work on the device goes to."""
    index = device_index(device)
    return _stream(_C._current_stream(index), index)


def default_stream(device: Device = None) -> Stream:
    """The stream that work goes to unless told otherwise."""
    return _stream(_C._DEFAULT_STREAM, device_index(device))


def set_stream(stream: torch.Stream | None) -> None:
    """Makes `stream` current, and its device too. Prefer `with torch.tpu.stream(s)`."""
    if stream is not None:
        _C._set_device(stream.device_index)
        torch._C._accelerator_setStream(stream)


def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    set_stream(Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))


class StreamContext:
    """Makes a stream and its device current inside a `with` block; None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self._device = _C._current_device()
            self._replaced = current_stream(self.stream.device)
            set_stream(self.stream)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.stream is not None:
            set_stream(self._replaced)
            _C._set_device(self._device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Makes a stream current inside a `with` block."""
    return StreamContext(stream)


def synchronize(device: Device = None) -> None:
    """Waits for all work submitted to the device, and raises the error of any that failed."""
    _C._synchronize(device_index(device))
