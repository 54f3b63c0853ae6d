"""Waiting for the device."""

import torch

import torchtpu


def synchronize(*tensors: torch.Tensor, wait: bool = False) -> None:
    """Starts what the tensors need, which is everywhere the case already, and with `wait` waits for it."""
    if wait:
        for device in {t.device for t in tensors if t.device.type == "tpu"} or {torchtpu.device()}:
            torch.tpu.synchronize(device)
