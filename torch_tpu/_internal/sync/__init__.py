"""Waiting for the device."""

from torch_tpu._internal.sync.sync import synchronize

__all__ = ["synchronize"]
