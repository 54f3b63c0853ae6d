"""What every test needs: PyTorch has loaded the device, and no test sees another's settings."""

from collections.abc import Iterator

import pytest
import torch

import torchtpu
from torchtpu import _C


def pytest_report_header() -> str:
    return f"torch {torch.__version__}"


@pytest.fixture
def device() -> torch.device:
    return torch.device("tpu", 0)


@pytest.fixture(autouse=True)
def _as_at_the_start() -> Iterator[None]:
    """Counts fallbacks from zero; afterwards restores the mode and the current device."""
    mode = torchtpu.get_mode()
    _C._reset_fallback_counts()
    yield
    torchtpu.set_mode(mode)
    torch.tpu.set_device(0)
