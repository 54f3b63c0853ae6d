"""What every test needs: PyTorch has loaded the device, and no test sees another's settings."""

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest
import torch

import torchtpu
from torchtpu import _C

# One compile cache per session, which the processes that tests start share; not the user's. It is named before the
# first use of the device, when it is read.
os.environ["TORCHTPU_CACHE_DIR"] = tempfile.mkdtemp(prefix="torchtpu-cache-")
os.environ.pop("TORCHTPU_CACHE_URL", None)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "strict_mode: counts what strict mode does, or sets modes itself")


def pytest_unconfigure() -> None:
    torchtpu.cache.wait()
    shutil.rmtree(os.environ["TORCHTPU_CACHE_DIR"], ignore_errors=True)


def pytest_report_header() -> str:
    return f"torch {torch.__version__}"


@pytest.fixture
def device() -> torch.device:
    return torch.device("tpu", 0)


@pytest.fixture(autouse=True)
def _as_at_the_start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Counts fallbacks from zero; afterwards restores the mode and the current device.

    The whole suite runs in any mode (``TORCHTPU_MODE=fuse pytest``), but for tests marked ``strict_mode``.
    """
    mode = torchtpu.get_mode()
    if request.node.get_closest_marker("strict_mode"):
        torchtpu.set_mode("strict")
        monkeypatch.delenv("TORCHTPU_MODE", raising=False)
    _C._reset_fallback_counts()
    yield
    torchtpu.set_mode(mode)
    torch.tpu.set_device(0)
