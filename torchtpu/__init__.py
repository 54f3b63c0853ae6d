"""A native PyTorch device `tpu`: importing this package (or torch, which does it) registers it."""

from typing import TYPE_CHECKING, Any

from torchtpu import cache
from torchtpu._entry import autoload as _autoload
from torchtpu._explain import explain
from torchtpu._registration import device, fallbacks, platform
from torchtpu._step import compile_step
from torchtpu.modes import get_mode, mode, set_fuse_options, set_mode

if TYPE_CHECKING:
    from torchtpu._export import export_stablehlo

__all__ = [
    "_autoload",
    "cache",
    "compile_step",
    "device",
    "explain",
    "export_stablehlo",
    "fallbacks",
    "get_mode",
    "mode",
    "platform",
    "set_fuse_options",
    "set_mode",
]


def __getattr__(name: str) -> Any:
    """What needs parts of PyTorch that are slow to import is found at its first use."""
    if name == "export_stablehlo":
        from torchtpu._export import export_stablehlo

        return export_stablehlo
    raise AttributeError(f"module 'torchtpu' has no attribute {name!r}")
