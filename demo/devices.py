"""What differs between the device `tpu` and others: a description, and the state of its generator."""

from types import ModuleType

import torch


def describe(device: torch.device) -> str:
    if device.type == "tpu":
        import torchtpu

        return f"device tpu: {torchtpu.platform()}"
    return f"device {device.type}: PyTorch {torch.__version__}'s own"


def random_state(device: torch.device) -> torch.Tensor:
    return torch.get_rng_state() if device.type == "cpu" else _module(device).get_rng_state()


def set_random_state(device: torch.device, state: torch.Tensor) -> None:
    if device.type == "cpu":
        torch.set_rng_state(state)
    else:
        _module(device).set_rng_state(state)


def _module(device: torch.device) -> ModuleType:
    return torch.get_device_module(device)
