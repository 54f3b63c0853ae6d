"""PyTorch's decomposition table, and what it leaves out, for ops that have no lowering. Imported on the first miss."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table


def _overload(name: str) -> torch._ops.OpOverload | None:
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return getattr(packet, overload or "default", None)


def _cholesky(x: torch.Tensor, upper: bool = False) -> torch.Tensor:
    return torch.linalg.cholesky(x, upper=upper)


_FURTHER: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.cholesky.default: _cholesky,
    torch.ops.aten._efficientzerotensor.default: torch.ops.aten.zeros.default,
}


@functools.cache
def find(name: str) -> Callable[..., Any] | None:
    """The Python function that expands ``name`` ("aten::op.overload") into other ops, or None."""
    op = _overload(name)
    return None if op is None else decomposition_table.get(op) or _FURTHER.get(op)
