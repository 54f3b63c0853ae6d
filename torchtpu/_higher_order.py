"""Operators that take functions, in a graph that is being recorded: branches, loops, attention with a score of its own.

What is not here runs as in eager mode, between two programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._higher_order_ops.flex_attention import sdpa_dense, sdpa_dense_backward

from torchtpu import _C

# A graph of a graph as a function, recorded as its parent is.
Nested = Callable[[Any], Callable[..., list[Any]]]


def _cond(nested: Nested, predicate: Any, then: Any, otherwise: Any, operands: Sequence[Any] = ()) -> Any:
    """Both branches, and what the predicate chooses of their results: they have no effects."""
    if not isinstance(predicate, torch.Tensor):
        return tuple(nested(then if predicate else otherwise)(*operands))
    pairs = zip(nested(then)(*operands), nested(otherwise)(*operands), strict=True)
    return tuple(torch.where(predicate, a, b) if isinstance(a, torch.Tensor) else a for a, b in pairs)


def _while_loop(nested: Nested, condition: Any, body: Any, carried: Sequence[Any], others: Sequence[Any]) -> Any:
    return tuple(_C._while_loop(nested(condition), nested(body), _tensors(carried), _tensors(others)))


def _scan(nested: Nested, body: Any, carried: Sequence[Any], slices: Sequence[Any], others: Sequence[Any]) -> Any:
    return tuple(_C._scan(nested(body), _tensors(carried), _tensors(slices), _tensors(others)))


def _tensors(values: Sequence[Any]) -> list[torch.Tensor]:
    if not all(isinstance(value, torch.Tensor) for value in values):
        raise NotImplementedError("a loop that carries or reads numbers, which are not tensors")
    return list(values)


def _invoke_subgraph(nested: Nested, graph: Any, _identifier: Any, *operands: Any) -> Any:
    return tuple(nested(graph)(*operands))


def _flex_attention(_nested: Nested, *args: Any, **kwargs: Any) -> Any:
    with _functorch():
        return sdpa_dense(*args, **kwargs)


def _flex_attention_backward(_nested: Nested, *args: Any, **kwargs: Any) -> Any:
    with _functorch():
        return sdpa_dense_backward(*args, **kwargs)


def _functorch() -> AbstractContextManager[None]:
    """Function transforms work, as they do not where a graph is recorded: below them."""
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in _TRANSFORMS:
        excluded = excluded.remove(key)
    return torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded)


_TRANSFORMS = [
    torch._C.DispatchKey.FuncTorchBatched,
    torch._C.DispatchKey.FuncTorchVmapMode,
    torch._C.DispatchKey.FuncTorchDynamicLayerBackMode,
    torch._C.DispatchKey.FuncTorchDynamicLayerFrontMode,
]

_ops = torch.ops.higher_order
OPERATORS: dict[Any, Callable[..., Any]] = {
    _ops.cond: _cond,
    _ops.while_loop: _while_loop,
    _ops.scan: _scan,
    _ops.invoke_subgraph: _invoke_subgraph,
    _ops.flex_attention: _flex_attention,
    _ops.flex_attention_backward: _flex_attention_backward,
}
