"""Modes, and how asynchronous errors surface."""

import threading

import pytest
import torch
from process import run

import torchtpu

pytestmark = pytest.mark.strict_mode


def test_context_manager_and_decorator():
    assert torchtpu.get_mode() == "strict"
    with torchtpu.mode("debug"):
        assert torchtpu.get_mode() == "debug"
        with torchtpu.mode("strict"):
            assert torchtpu.get_mode() == "strict"
        assert torchtpu.get_mode() == "debug"
    assert torchtpu.get_mode() == "strict"

    @torchtpu.mode("debug")
    def inside() -> str:
        return torchtpu.get_mode()

    assert inside() == inside() == "debug"
    assert torchtpu.get_mode() == "strict"


def test_set_mode():
    torchtpu.set_mode("debug")
    try:
        assert torchtpu.get_mode() == "debug"
        with torchtpu.mode("strict"):
            torchtpu.set_mode("debug")
            assert torchtpu.get_mode() == "strict"
        assert torchtpu.get_mode() == "debug"
    finally:
        torchtpu.set_mode("strict")


def test_override_ends_with_an_exception():
    with pytest.raises(KeyError), torchtpu.mode("debug"):
        raise KeyError
    assert torchtpu.get_mode() == "strict"


@pytest.mark.parametrize("use", [torchtpu.set_mode, lambda name: torchtpu.mode(name).__enter__()])
def test_unknown_mode(use):
    with pytest.raises(ValueError, match="mode: expected 'strict', 'debug' or 'fuse', found 'fast'"):
        use("fast")
    assert torchtpu.get_mode() == "strict"


def test_overrides_of_two_threads_may_interleave():
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with torchtpu.mode("debug"):
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with torchtpu.mode("debug"):
        thread.start()
        entered.wait()
    assert torchtpu.get_mode() == "debug"
    leave.set()
    thread.join()
    assert torchtpu.get_mode() == "strict"


@pytest.mark.parametrize(
    ("environment", "mode"),
    [
        ({}, "strict"),
        ({"TORCHTPU_MODE": "debug"}, "debug"),
        ({"TPU_LAUNCH_BLOCKING": "1"}, "debug"),
        ({"TPU_LAUNCH_BLOCKING": "0"}, "strict"),
    ],
)
def test_environment(environment, mode):
    assert run("import torchtpu; print(torchtpu.get_mode())", **environment) == mode


def test_bad_environment_is_reported():
    code = """
        try:
            import torchtpu
        except ValueError as error:
            print(error)
    """
    assert run(code, TORCHTPU_MODE="fast", TORCH_DEVICE_BACKEND_AUTOLOAD="0") == (
        "TORCHTPU_MODE: expected 'strict', 'debug' or 'fuse', found 'fast'"
    )


def test_debug_and_strict_agree():
    def step() -> torch.Tensor:
        torch.manual_seed(0)
        x = torch.randn(4, 4, device="tpu", requires_grad=True)
        (x @ x).relu().sum().backward()
        return x.grad.cpu()

    strict = step()
    with torchtpu.mode("debug"):
        assert torch.equal(step(), strict)


def test_debug_checks_indices():
    x, index = torch.arange(4.0, device="tpu"), torch.tensor([0, 9], device="tpu")
    with torchtpu.mode("debug"), pytest.raises(IndexError, match="9"):
        x[index]
    assert x.cpu().tolist() == [0, 1, 2, 3]


def test_debug_checks_indices_in_the_backward_pass():
    """Which runs on a thread of autograd's."""

    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad[torch.tensor([7], device="tpu")]

    x = torch.ones(2, device="tpu", requires_grad=True)
    with torchtpu.mode("debug"), pytest.raises(IndexError, match="7"):
        Bad.apply(x).sum().backward()
