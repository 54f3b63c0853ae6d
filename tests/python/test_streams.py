"""Streams and events."""

import threading

import pytest
import torch
from process import run


def work() -> torch.Tensor:
    x = torch.ones(64, 64, device="tpu")
    for _ in range(20):
        x = (x @ x) / 64
    return x


def test_current_and_default_stream():
    assert torch.tpu.current_stream() == torch.tpu.default_stream()
    assert torch.tpu.current_stream().stream_id == 0
    assert isinstance(torch.tpu.current_stream(), torch.Stream)
    assert torch.accelerator.current_stream() == torch.tpu.current_stream()


def test_stream_context():
    stream, inner = torch.tpu.Stream(), torch.tpu.Stream(priority=-1)
    assert stream != inner and stream.priority == 0 and inner.priority == -1
    with torch.tpu.stream(stream):
        assert torch.tpu.current_stream() == stream
        with torch.tpu.stream(inner):
            assert torch.tpu.current_stream() == inner
        assert torch.tpu.current_stream() == stream
        with torch.tpu.stream(None):
            assert torch.tpu.current_stream() == stream
    assert torch.tpu.current_stream() == torch.tpu.default_stream()
    with stream:
        assert torch.tpu.current_stream() == stream
    assert torch.tpu.current_stream() == torch.tpu.default_stream()


def test_set_stream():
    stream = torch.tpu.Stream()
    torch.tpu.set_stream(stream)
    try:
        assert torch.tpu.current_stream() == stream
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.tpu.current_stream().stream_id))
        thread.start()
        thread.join()
        assert seen == [0]  # it is this thread's
    finally:
        torch.tpu.set_stream(torch.tpu.default_stream())


def test_rebuilt_from_its_ids():
    stream = torch.tpu.Stream()
    again = torch.Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)
    assert again == stream
    unknown = torch.Stream(stream_id=1000, device_index=0, device_type=stream.device_type)
    with pytest.raises(RuntimeError, match="tpu stream: expected an id below"):
        torch.tpu.set_stream(unknown)


def test_query_and_synchronize():
    stream = torch.tpu.Stream()
    assert stream.query()
    with torch.tpu.stream(stream):
        x = work()
    stream.synchronize()
    assert stream.query()
    torch.testing.assert_close(x.cpu(), torch.ones(64, 64))


def test_wait_stream():
    side = torch.tpu.Stream()
    x = work()
    side.wait_stream(torch.tpu.current_stream())
    with torch.tpu.stream(side):
        y = x + 1
    torch.tpu.current_stream().wait_stream(side)
    y.record_stream(torch.tpu.current_stream())
    with pytest.raises(RuntimeError, match="record_stream: expected a stream of"):
        y.record_stream(torch.Stream("cpu"))
    torch.tpu.synchronize()
    assert side.query()
    torch.testing.assert_close(y.cpu(), torch.full((64, 64), 2.0))


@pytest.mark.parametrize("timed", [False, True])
def test_event(timed):
    event = torch.tpu.Event(enable_timing=timed)
    assert event.query()  # never recorded
    event.synchronize()
    work()
    event.record()
    event.wait(torch.tpu.Stream())
    event.synchronize()
    assert event.query()
    assert isinstance(torch.tpu.current_stream().record_event(), torch.tpu.Event)


def test_elapsed_time():
    start, end = (torch.tpu.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)
    work()
    torch.tpu.synchronize()
    start.record()
    for _ in range(5):
        work()
    end.record()
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 60_000
    assert end.elapsed_time(start) == -start.elapsed_time(end)


def test_untimed_events_have_no_time():
    start, end = torch.tpu.Event(), torch.tpu.Event()
    start.record()
    end.record()
    torch.tpu.synchronize()
    with pytest.raises(ValueError, match="enable_timing"):
        start.elapsed_time(end)


def test_generic_events_and_streams():
    stream = torch.Stream("tpu")
    start, end = (torch.Event("tpu", enable_timing=True) for _ in range(2))
    with stream:
        start.record()
        work()
        end.record()
    torch.accelerator.current_stream().wait_event(end)
    torch.accelerator.synchronize()
    assert end.query() and stream.query()
    assert 0 < start.elapsed_time(end) < 60_000
    untimed = torch.Event("tpu")
    untimed.record()
    with pytest.raises(ValueError, match="enable_timing"):
        start.elapsed_time(untimed)


def test_interprocess_events_are_refused():
    with pytest.raises(NotImplementedError, match="between processes"):
        torch.tpu.Event(interprocess=True)


def test_events_across_devices():
    code = """
        import torch
        x = torch.ones(32, 32, device="tpu:0")
        for _ in range(50):
            x = (x @ x) / 32
        event = torch.tpu.current_stream(0).record_event()
        stream = torch.tpu.Stream("tpu:1")
        stream.wait_event(event)
        with torch.tpu.stream(stream):
            assert torch.tpu.current_device() == 1 and torch.tpu.current_stream() == stream
            y = torch.ones(2, device="tpu") + 1
        assert torch.tpu.current_device() == 0
        stream.synchronize()
        assert event.query() and y.device.index == 1
    """
    run(code, TORCHTPU_PJRT="cpu", TORCHTPU_CPU_DEVICES="2")


def test_interrupt_while_waiting():
    code = """
        import signal, threading, time, torch
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell starts without it
        x = torch.ones(1500, 1500, device="tpu")
        torch.tpu.synchronize()
        start = time.monotonic()
        for _ in range(200):
            x = (x @ x) / 1500
        threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
        try:
            torch.tpu.synchronize()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        import os; os._exit(0)
    """
    assert run(code, TORCHTPU_PJRT="cpu", TORCHTPU_MODE="strict") == "interrupted"


def test_other_threads_run_while_one_waits():
    code = """
        import threading, torch
        x = torch.ones(1000, 1000, device="tpu")
        torch.tpu.synchronize()
        for _ in range(60):
            x = (x @ x) / 1000
        count, done = 0, threading.Event()
        def tick():
            global count
            while not done.wait(0.001):
                count += 1
        thread = threading.Thread(target=tick)
        thread.start()
        x.cpu()
        done.set(); thread.join()
        print(count > 5)
    """
    assert run(code, TORCHTPU_PJRT="cpu", TORCHTPU_MODE="strict") == "True"
