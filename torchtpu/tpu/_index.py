"""From what users call a device to its index."""

import torch
from torch.types import Device

from torchtpu import _C


def device_index(device: Device = None) -> int:
    """The index that `device` means; None and "tpu" without an index mean the current device."""
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "tpu":
            raise ValueError(f"expected a tpu device, found {str(device)!r}")
        device = device.index
    return _C._current_device() if device is None else device
