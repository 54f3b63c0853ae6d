"""Registers the device with PyTorch. Opens no plugin: that waits for the first use."""

import os
import sys
from importlib.util import find_spec

import torch

from torchtpu import _C, _compiler_registration, _distributed, _dtensor, tpu


def device(index: int | None = None) -> torch.device:
    """`torch.device("tpu", index)`; without an index, the current one's."""
    return torch.device("tpu", tpu.current_device() if index is None else index)


def fallbacks() -> dict[str, int]:
    """How often each op without a lowering has run on the host CPU."""
    return dict(_C._fallback_counts())


def platform() -> str:
    """Describes the plugin behind the device; opens it."""
    return _C._platform()


def plugin_file(package: str, file: str) -> str:
    """The path of a file in an installed package, which is not imported; empty when there is none."""
    try:
        spec = find_spec(package)
    except ModuleNotFoundError:  # of the parent package
        return ""
    for folder in (spec and spec.submodule_search_locations) or ():
        path = os.path.join(folder, file)
        if os.path.exists(path):
            return path
    return ""


def _cpu_devices() -> int:
    """One, or as many as a launcher has started processes here: each takes the one of its own local rank."""
    launched = os.environ.get("LOCAL_WORLD_SIZE", "")
    default = launched if launched.isdecimal() and 1 <= int(launched) <= 127 else "1"
    text = os.environ.get("TORCHTPU_CPU_DEVICES", default)
    if not text.isdecimal() or not 1 <= int(text) <= 127:
        raise ValueError(f"TORCHTPU_CPU_DEVICES: expected a number from 1 to 127, found {text!r}")
    return int(text)


def _register() -> None:
    _C._configure(
        setting=os.environ.get("TORCHTPU_PJRT", "auto"),
        cpu_plugin=plugin_file("xla_plugins.xla_cpu_pjrt", "xla_cpu_pjrt.so"),
        libtpu=plugin_file("libtpu", "libtpu.so"),
        cpu_devices=_cpu_devices(),
    )
    torch.utils.rename_privateuse1_backend("tpu")
    torch._register_device_module("tpu", tpu)
    for name in ("amp", "memory", "random", "streams"):
        sys.modules[f"torch.tpu.{name}"] = getattr(tpu, name)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    torch.set_autocast_dtype("tpu", torch.bfloat16)
    _compiler_registration.register()
    _distributed.register()
    _dtensor.register()


_register()
