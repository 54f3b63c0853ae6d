"""Random state. A state is 16 bytes on the CPU: seed, then offset. None of this opens the plugin."""

from collections.abc import Iterable

import torch
from torch.types import Device

from torchtpu import _C
from torchtpu.tpu._index import device_index


def _get_generator(device: Device = None) -> torch.Generator:
    return _C._default_generator(device_index(device))


def get_rng_state(device: Device = "tpu") -> torch.Tensor:
    """The state of the device's default generator."""
    return _get_generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices' default generators."""
    return [get_rng_state(index) for index in range(_C._device_count())]


def set_rng_state(new_state: torch.Tensor, device: Device = "tpu") -> None:
    """Sets the state of the device's default generator."""
    _get_generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets the states of all devices' default generators."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seeds the current device's default generator."""
    _get_generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds all devices' default generators."""
    _C._seed_all(int(seed) & 0xFFFF_FFFF_FFFF_FFFF)


def seed() -> int:
    """Seeds the current device's default generator with a random number, which it returns."""
    return _get_generator().seed()


def seed_all() -> int:
    """Seeds all devices' default generators with one random number, which it returns."""
    number = seed()
    manual_seed_all(number)
    return number


def initial_seed() -> int:
    """The seed of the current device's default generator."""
    return _get_generator().initial_seed()


def _get_rng_state_offset(device: Device = "tpu") -> int:
    return _get_generator(device).get_offset()


def _set_rng_state_offset(offset: int, device: Device = "tpu") -> None:
    _get_generator(device).set_offset(offset)
