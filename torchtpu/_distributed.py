"""The backend `tpu` of `torch.distributed`, registered when that is first imported."""

import atexit
from datetime import timedelta
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from torchtpu import _C
from torchtpu._on_import import on_import

if TYPE_CHECKING:
    from torch.distributed import ProcessGroupGloo, Store

# `tpu_dist` is what Google's package calls its backend.
NAMES = ("tpu", "tpu_dist")
# How long a process that ends without destroy_process_group waits for what it still has to send.
_EXIT_SECONDS = 5.0


def _connect(store: "Store", rank: int, size: int, timeout: timedelta) -> "ProcessGroupGloo":
    """The transport: Gloo, between the hosts' memories."""
    from torch.distributed import ProcessGroupGloo

    return ProcessGroupGloo(store, rank, size, timeout=timeout)


@cache
def _end_with_the_program() -> None:
    atexit.register(_C._shutdown_groups, _EXIT_SECONDS)


@cache
def _software() -> str:
    """What has to be alike on all ranks."""
    import torch

    return f"torchtpu {version('torchtpu')} and torch {torch.__version__}"


def _create(options: Any, backend_options: Any) -> Any:
    _C._bind_process_group()
    if backend_options is not None and not isinstance(backend_options, _C._ProcessGroupOptions):
        raise TypeError(f"pg_options: expected none for the backend tpu, found {type(backend_options).__name__}")
    _end_with_the_program()
    settings = _C._ProcessGroupOptions(timeout=options.timeout)
    settings.version = _software()
    settings.group_name = options.group_id
    settings.global_ranks_in_group = options.global_ranks_in_group
    return _C._ProcessGroup(options.store, options.group_rank, options.group_size, settings, _connect)


def _register() -> None:
    from torch.distributed.distributed_c10d import Backend

    for name in NAMES:
        Backend.register_backend(name, _create, extended_api=True, devices=["tpu"])


def _serve_fake() -> None:
    """The backend `fake`, of one process that stands for all, is for tensors on tpu as well as for those on cuda."""
    from torch.distributed.distributed_c10d import Backend

    devices = Backend.backend_capability["fake"]
    if "tpu" not in devices:
        devices.append("tpu")


def register() -> None:
    on_import("torch.testing._internal.distributed.fake_pg", _serve_fake)
    on_import("torch.distributed.distributed_c10d", _register)
