"""Getting hold of the device."""

import torch

import torchtpu


def tpu_device() -> torch.device:
    """The current device; opens the plugin."""
    torch.tpu.init()
    return torchtpu.device()
