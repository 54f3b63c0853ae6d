"""Dynamic shapes: which arguments of a graph change their size, by which symbols, and which bucket a call belongs to.

A program is made for a range of sizes rather than for one. Ranges double: up to 8, 9 to 16, 17 to 32 and on, within
what `torch._dynamo.mark_dynamic(min=, max=)` allows.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from torchtpu import _C

_log = logging.getLogger(__name__)

# Why graphs whose sizes change have one program a size, and how often; for explain.
exact: Counter[str] = Counter()

_SMALLEST = 8  # the first bucket's end
_MOST_SYMBOLS = 3
_UNBOUNDED = 2**31


@dataclass(frozen=True)
class Symbol:
    """Found in an argument: itself, or the size of a dimension, there plus an offset."""

    symbol: sympy.Symbol
    argument: int
    dimension: int | None
    offset: int
    low: int
    high: int


class Buckets:
    """A graph's symbols, and its programs for ranges of them."""

    def __init__(self, placeholders: Sequence[torch.fx.Node]) -> None:
        values = [node.meta.get("val") for node in placeholders]
        self._symbolic = [_is_symbolic(value) for value in values]
        self.symbols = _find_symbols(values)
        self._geometries = [_geometry(value) for value in values]
        self._refused: dict[tuple[int, ...], str] = {}

    @classmethod
    def of(cls, graph: torch.fx.GraphModule, *, must: bool = False) -> Buckets | None:
        """None for a graph whose sizes do not change, or, but with `must`, not in a way that has buckets."""
        placeholders = graph.graph.find_nodes(op="placeholder")
        if not any(_is_symbolic(node.meta.get("val")) for node in placeholders):
            return None
        try:
            return cls(placeholders)
        except NotImplementedError as error:
            if must:
                raise
            exact[str(error)] += 1
            return None

    def run(self, graph: _C._CompiledGraph, arguments: list[Any]) -> Sequence[Any] | None:
        """The results by a bucket's program, and `arguments` emptied; None where the exact program is needed."""
        sizes, low, high = [], [], []
        for symbol in self.symbols:
            argument = arguments[symbol.argument]
            size = int(argument if symbol.dimension is None else argument.shape[symbol.dimension]) - symbol.offset
            bucket = _bucket(size, symbol)
            if bucket is None:
                return None
            sizes.append(size)
            low.append(bucket[0])
            high.append(bucket[1])
        if tuple(high) in self._refused:
            return None
        try:
            return graph.in_bucket(arguments, self._symbolic, self.describe, sizes, low, high)
        except NotImplementedError as error:
            self.refuse(tuple(high), str(error))
            return None

    def refuse(self, high: tuple[int, ...], why: str) -> None:
        reason = why.split("\n")[0]
        _log.info("torch.compile: one program a size: %s", reason)
        self._refused[high] = reason
        exact[reason] += 1

    def describe(self, point: Sequence[int]) -> list[Any]:
        """Each argument at certain sizes."""
        known = {symbol.symbol: sympy.Integer(size) for symbol, size in zip(self.symbols, point, strict=True)}

        def number(size: sympy.Expr) -> int:
            return int(size.xreplace(known))

        described: list[Any] = []
        for geometry, symbolic in zip(self._geometries, self._symbolic, strict=True):
            if not symbolic:
                described.append(None)
            elif isinstance(geometry, tuple):
                described.append(tuple(tuple(map(number, sizes)) for sizes in geometry))
            else:
                described.append(number(geometry))
        return described


def _geometry(value: Any) -> Any:
    """Sizes and strides, or a number, as expressions: later guards may replace the symbols of SymInts."""
    if isinstance(value, torch.Tensor):
        return tuple(tuple(map(_expression, sizes)) for sizes in (value.shape, value.stride()))
    return _expression(value) if isinstance(value, (int, torch.SymInt)) else None


def values_of(placeholders: Sequence[torch.fx.Node], arguments: Sequence[Any]) -> dict[sympy.Symbol, sympy.Integer]:
    """What the symbols are when a graph is called with these."""
    known: dict[sympy.Symbol, sympy.Integer] = {}
    for node, argument in zip(placeholders, arguments, strict=True):
        value = node.meta.get("val")
        pairs = (
            zip(value.shape, argument.shape, strict=True) if isinstance(value, torch.Tensor) else [(value, argument)]
        )
        for size, now in pairs:
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                known[size.node.expr] = sympy.Integer(now)
    return known


def at(sizes: Sequence[Any], known: dict[sympy.Symbol, sympy.Integer]) -> tuple[int, ...] | None:
    """The sizes as numbers, without a guard; None where one follows from symbols that are not known."""
    numbers = [_expression(size).xreplace(known) for size in sizes]
    return tuple(map(int, numbers)) if all(number.is_Integer for number in numbers) else None


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) and not _expression(size).is_number for size in value.shape)
    return isinstance(value, torch.SymInt) and not _expression(value).is_number


def _expression(size: Any) -> sympy.Expr:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def _find_symbols(values: Sequence[Any]) -> list[Symbol]:
    wanted: set[sympy.Symbol] = set()
    found: dict[sympy.Symbol, Symbol] = {}
    environment = None

    def see(size: Any, argument: int, dimension: int | None) -> None:
        nonlocal environment
        if not isinstance(size, torch.SymInt):
            return
        environment = size.node.shape_env
        expression = size.node.expr
        wanted.update(expression.free_symbols)
        for symbol in expression.free_symbols:
            offset = expression - symbol
            if symbol not in found and offset.is_Integer:
                bounds = environment.var_to_range.get(symbol)
                low = _whole(bounds.lower, 2) if bounds else 2
                high = _whole(bounds.upper, _UNBOUNDED) if bounds else _UNBOUNDED
                found[symbol] = Symbol(symbol, argument, dimension, int(offset), max(low, 2), high)

    for i, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            for d, size in enumerate(value.shape):
                see(size, i, d)
            for stride in value.stride():
                if isinstance(stride, torch.SymInt):
                    wanted.update(stride.node.expr.free_symbols)
        elif isinstance(value, torch.SymInt):
            see(value, i, None)
    if missing := wanted - found.keys():
        raise NotImplementedError(f"dynamic shapes: no argument has the size {sorted(map(str, missing))[0]} itself")
    if len(found) > _MOST_SYMBOLS:
        raise NotImplementedError(f"dynamic shapes: more than {_MOST_SYMBOLS} independent sizes")
    return sorted(found.values(), key=lambda symbol: str(symbol.symbol))


def _whole(bound: Any, otherwise: int) -> int:
    return min(int(bound), _UNBOUNDED) if getattr(bound, "is_Integer", isinstance(bound, int)) else otherwise


def _bucket(size: int, symbol: Symbol) -> tuple[int, int] | None:
    if not symbol.low <= size <= symbol.high:
        return None
    low, high = 2, _SMALLEST
    while high < size:
        low, high = high + 1, high * 2
    return max(low, symbol.low), min(high, symbol.high)
