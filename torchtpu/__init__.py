"""A native PyTorch device `tpu`: importing this package (or torch, which does it) registers it."""

from torchtpu import cache
from torchtpu._entry import autoload as _autoload
from torchtpu._explain import explain
from torchtpu._registration import device, fallbacks, platform
from torchtpu._step import compile_step
from torchtpu.modes import get_mode, mode, set_fuse_options, set_mode

__all__ = [
    "_autoload",
    "cache",
    "compile_step",
    "device",
    "explain",
    "fallbacks",
    "get_mode",
    "mode",
    "platform",
    "set_fuse_options",
    "set_mode",
]
