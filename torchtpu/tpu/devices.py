"""Devices: how many, which is current, what each is."""

from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from torch.types import Device

from torchtpu import _C
from torchtpu.tpu._index import device_index


def is_available() -> bool:
    """Whether there is a device, by what the machine has; opens no plugin, so that may still fail."""
    return _C._is_available()


def device_count() -> int:
    """The number of devices of this process."""
    return _C._device_count()


def init() -> None:
    """Opens the plugin, which otherwise happens on the first use."""
    _C._init()


def _lazy_init() -> None:
    if not is_initialized():
        init()


def is_initialized() -> bool:
    """Whether the plugin is open in this process."""
    return _C._is_initialized()


def _is_in_bad_fork() -> bool:
    return _C._is_in_bad_fork()


def current_device() -> int:
    """The index of this thread's current device."""
    return _C._current_device()


def set_device(device: Device) -> None:
    """Makes a device current; a negative index changes nothing."""
    index = device_index(device)
    if index >= 0:
        _C._set_device(index)


def _exchange_device(index: int) -> int:
    return _C._exchange_device(index) if index >= 0 else -1


def _maybe_exchange_device(index: int) -> int:
    return _exchange_device(index)


class device:
    """Makes a device current inside a `with` block; None or a negative index changes nothing."""

    def __init__(self, device: Device) -> None:
        self.idx = -1 if device is None else device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _exchange_device(self.prev_idx)


class device_of(device):
    """Makes the device of a tensor or storage current; changes nothing for one that is elsewhere."""

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage) -> None:
        super().__init__(obj.device.index if obj.device.type == "tpu" else None)


@dataclass(frozen=True)
class DeviceProperties:
    """What the plugin says about a device."""

    index: int
    name: str
    platform: str
    platform_version: str
    total_memory: int
    id: int
    process_index: int
    local_hardware_id: int
    attributes: dict[str, Any]
    # A program spans whatever cores the device has, so for those who divide work among processors it is one.
    multi_processor_count: int = 1


def get_device_properties(device: Device = None) -> DeviceProperties:
    """What the plugin says about the device."""
    return DeviceProperties(**_C._device_properties(device_index(device)))


def get_device_name(device: Device = None) -> str:
    """The vendor's name of the model."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> dict[str, Any]:
    """`supported_dtypes`: the types that tensors may have."""
    return torch._C._accelerator_getDeviceCapability(device_index(device))


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Whether copies between the two need no host memory: all devices of a process share one client."""
    index, peer = get_device_properties(device).index, get_device_properties(peer_device).index
    return index != peer


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Always: it is a TPU's own type."""
    return True
