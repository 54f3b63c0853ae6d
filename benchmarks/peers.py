"""The environments that other packages run in."""

from __future__ import annotations

import os


def environment() -> dict[str, str]:
    """Of a process that is to load a peer, and not TorchTPU."""
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PJRT_DEVICE": "CPU"}  # the latter: torch_xla's
    environment.pop("PYTHONPATH", None)
    return environment
