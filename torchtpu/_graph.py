"""An FX graph of ATen ops as one program, or as few as can be.

The graph is run once on placeholders while the runtime records its ops (`_C._CompiledGraph`). Where an op of it needs
the data or the host, the graph is split there: what comes before and after are programs, the op itself runs as in eager
mode.
"""

from __future__ import annotations

import hashlib
import logging
import operator
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx.passes.split_module import split_module
from torch.utils._python_dispatch import _disable_current_modes

from torchtpu import _C
from torchtpu._dynamic import Buckets, at, values_of
from torchtpu._higher_order import OPERATORS

_log = logging.getLogger(__name__)

# Why graphs were split, and how often; for explain.
splits: Counter[str] = Counter()

# The namespaces of collectives as PyTorch traces them.
_COLLECTIVES = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "c10d", "_dtensor")

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')

Boxed = Callable[[list[Any]], Sequence[Any]]


def compile_graph(graph: torch.fx.GraphModule, example_inputs: Sequence[Any], *, kind: str) -> Boxed:
    """The graph as a function of a list, which it empties."""
    device = _device_of(graph)
    if device is None:  # nothing of it is on a tpu
        return _boxed(graph.forward)
    _dump(graph, kind)
    return _compile(graph, device, kind)


def _compile(graph: torch.fx.GraphModule, device: int, kind: str) -> Boxed:
    objects = [node for node in graph.graph.find_nodes(op="placeholder") if _is_object(node.meta.get("val"))]
    eager = {user: "it takes an object that is no tensor" for node in objects for user in node.users}
    eager |= {node: why for node in graph.graph.nodes if (why := _why_eager(node))}
    eager = {node: why for node, why in eager.items() if node.op != "output"}
    if eager:
        return _split(graph, eager, device, kind)
    if objects:
        return _around_objects(graph, objects, device, kind)
    host_results = move_from_host(graph, device)
    recorder = Recorder(graph)
    buckets = Buckets.of(graph)
    program = _C._CompiledGraph(
        name=f"compiled {kind}",
        device=device,
        stand_ins="placeholders",
        host_results=host_results,
        function=recorder.record,
    )
    run: Boxed = program

    def compiled(arguments: list[Any]) -> Sequence[Any]:
        nonlocal run
        if buckets is not None and run is program:
            recorder.sampling = True
            try:
                results = buckets.run(program, arguments)
            finally:
                recorder.sampling = False
            if results is not None:
                return results
            recorder.failed = None  # the exact program will say so
        try:
            return run(arguments)
        except NotImplementedError as error:
            if recorder.failed is None:
                raise
            _log.info("torch.compile: %s runs as in eager mode: %s", recorder.failed.target, error)
            run = _split(graph, {recorder.failed: str(error).split("\n")[0]}, device, kind)
            recorder.failed = None
            return run(arguments)

    compiled._boxed_call = True  # type: ignore[attr-defined]
    return compiled


class Recorder(torch.fx.Interpreter):
    """Runs a graph's ops on stand-ins, and remembers the node that could not."""

    failed: torch.fx.Node | None = None
    sampling = False  # at other sizes than the call's, which the graph may not be valid for

    def record(self, arguments: list[Any]) -> list[Any]:
        self._known = values_of(self.module.graph.find_nodes(op="placeholder"), arguments)
        try:
            results = self.run(*arguments)
        except Exception as error:
            if not self.sampling or isinstance(error, NotImplementedError):
                raise
            raise NotImplementedError(f"the graph is not valid for other sizes: {error}") from error
        (output,) = self.module.graph.find_nodes(op="output")
        promised = output.args[0]
        if not isinstance(promised, (tuple, list)):  # a condition of a loop
            results, promised = [results], [promised]
        return [self._as_promised(result, node) for result, node in zip(results, promised, strict=True)]

    def run_node(self, n: torch.fx.Node) -> Any:
        _C._set_line(_line_of(n))
        try:
            if n.target is torch.ops.higher_order.graphsafe_run_with_rng_state:
                return self._drawing(n)
            if higher_order := OPERATORS.get(n.target):
                args, kwargs = self.fetch_args_kwargs_from_env(n)
                return self._as_promised(higher_order(self._nested, *args, **kwargs), n)
            result = super().run_node(n)
            if isinstance(n.target, torch._ops.OpOverload) and not any(r.alias_info for r in n.target._schema.returns):
                return self._as_promised(result, n)
            return result
        except NotImplementedError:
            self.failed = n
            raise

    def _as_promised(self, result: Any, node: Any) -> Any:
        """An op's result, or several, with the strides that the graph was traced with: later ops and graphs count on
        them.
        """
        promised = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
        if isinstance(result, (tuple, list)) and isinstance(promised, (tuple, list)):
            return type(result)(map(self._with_strides, result, promised))
        return self._with_strides(result, promised)

    def _with_strides(self, result: Any, promised: Any) -> Any:
        if not isinstance(result, torch.Tensor) or not isinstance(promised, torch.Tensor):
            return result
        strides = at(promised.stride(), self._known)
        if strides is None or strides == result.stride() or result.numel() == 0:
            return result
        if all(size == 1 or a == b for size, a, b in zip(result.shape, strides, result.stride(), strict=True)):
            return result
        return torch.empty_strided(result.shape, strides, dtype=result.dtype, device=result.device).copy_(result)

    def _nested(self, graph: torch.fx.GraphModule) -> Callable[..., list[Any]]:
        inner = Recorder(graph)
        return lambda *arguments: inner.record(list(arguments))

    def _drawing(self, node: torch.fx.Node) -> Any:
        """An op that draws from a generator of the graph's: activation checkpointing draws the same numbers again."""
        (op, *args), kwargs = self.fetch_args_kwargs_from_env(node)
        others = {name: value for name, value in kwargs.items() if name != "rng_state"}
        _C._draw_from(kwargs["rng_state"])
        try:
            return op(*args, **others)
        finally:
            _C._draw_from(None)


def _line_of(node: torch.fx.Node) -> str:
    """The innermost line of the user's that a node comes from: "train.py:12", or ""."""
    frames = _FRAME.findall(node.stack_trace or "")
    return ":".join(frames[-1]) if frames else ""


def _dump(graph: torch.fx.GraphModule, kind: str) -> None:
    """Into the folder that TORCHTPU_DUMP names, as the programs made of it are."""
    folder = os.environ.get("TORCHTPU_DUMP")
    if not folder:
        return
    code = graph.print_readable(print_output=False)
    name = f"compiled_{kind}-{hashlib.sha256(code.encode()).hexdigest()[:16]}.fx.py"
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / name).write_text(code)
    except OSError as error:
        _log.warning("TORCHTPU_DUMP: %s", error)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _device_of(graph: torch.fx.GraphModule) -> int | None:
    for node in graph.graph.nodes:
        for tensor in _tensors(node.meta.get("val")):
            if tensor.device.type == "tpu":
                return -1 if tensor.device.index is None else tensor.device.index
    return None


def _is_on_host(node: torch.fx.Node) -> bool:
    tensors = _tensors(node.meta.get("val"))
    return bool(tensors) and all(tensor.device.type == "cpu" for tensor in tensors)


def _why_eager(node: torch.fx.Node) -> str | None:
    """Why a node can be no part of a program, if it is known beforehand."""
    if node.op != "call_function":
        return None
    if getattr(node.target, "namespace", None) in _COLLECTIVES:
        # All of them: a wait that a program would take has to find the call that it waits for.
        return "it is a collective"
    tags = getattr(node.target, "tags", ())
    # The host's random numbers are its own generator's.
    draws = _is_on_host(node) and torch.Tag.nondeterministic_seeded in tags
    return "it draws the host's random numbers" if draws else None


def move_from_host(graph: torch.fx.GraphModule, device: int) -> list[bool]:
    """Has all of the graph computed on the device; says which results belong on the host."""
    (output,) = graph.graph.find_nodes(op="output")
    host_results = [isinstance(node, torch.fx.Node) and _is_on_host(node) for node in output.args[0]]
    there = torch.device("tpu", max(device, 0))

    def moved(value: Any) -> Any:
        return there if isinstance(value, torch.device) and value.type == "cpu" else value

    for node in (
        node for part in graph.modules() if isinstance(part, torch.fx.GraphModule) for node in part.graph.nodes
    ):
        if node.op == "call_function":
            node.args = torch.fx.node.map_aggregate(node.args, moved)
            node.kwargs = torch.fx.node.map_aggregate(node.kwargs, moved)
        elif node.op == "get_attr":
            owner, _, name = node.target.rpartition(".")
            module = node.graph.owning_module.get_submodule(owner)
            constant = getattr(module, name)
            if isinstance(constant, torch.Tensor) and constant.device.type == "cpu":
                with _disable_current_modes():  # AOTAutograd's fake tensors
                    setattr(module, name, constant.to(there))
    return host_results


def _is_object(value: Any) -> bool:
    """A mesh, a process group, the size of a ragged dimension: what a program neither takes nor gives."""
    if isinstance(value, torch.SymInt):
        return value.node.is_nested_int()
    return not isinstance(value, (torch.Tensor, torch.Generator, torch.SymFloat, torch.SymBool, int, float, type(None)))


def _around_objects(graph: torch.fx.GraphModule, objects: Sequence[torch.fx.Node], device: int, kind: str) -> Boxed:
    """The graph without arguments that no op of it takes: they are at most its results."""
    position = {node: i for i, node in enumerate(graph.graph.find_nodes(op="placeholder")) if node in objects}
    (output,) = graph.graph.find_nodes(op="output")
    passed = [position.get(result) for result in output.args[0]]
    output.args = (tuple(result for result in output.args[0] if result not in position),)
    for node in objects:
        graph.graph.erase_node(node)
    graph.recompile()
    run = _compile(graph, device, kind)
    positions = set(position.values())

    def compiled(arguments: list[Any]) -> Sequence[Any]:
        given = {i: arguments[i] for i in positions}
        others = [argument for i, argument in enumerate(arguments) if i not in positions]
        arguments.clear()
        results = iter(run(others))
        return [next(results) if i is None else given[i] for i in passed]

    compiled._boxed_call = True  # type: ignore[attr-defined]
    return compiled


def _split(graph: torch.fx.GraphModule, eager: dict[torch.fx.Node, str], device: int, kind: str) -> Boxed:
    """Programs for what comes before, between and after nodes that run as in eager mode, each for its reason."""
    part, running = 0, False
    parts: dict[torch.fx.Node, int] = {}
    programs = set()
    for node in graph.graph.nodes:
        if node.target is operator.getitem and node.args[0] in eager:
            parts[node] = parts[node.args[0]]
            continue
        if node.op != "placeholder" and (node in eager) != running:
            part, running = part + 1, not running
        parts[node] = part
        if not running:
            programs.add(f"submod_{part}")
    for node, why in eager.items():
        splits[f"{node.target} runs as in eager mode: {why}"] += 1
    whole = split_module(graph, None, lambda node: parts[node], keep_original_order=True)
    for name, module in list(whole.named_children()):
        if name in programs:
            whole.add_submodule(name, _Part(module, device, kind))
    return _boxed(whole.forward)


class _Part(torch.nn.Module):
    """A piece of a split graph."""

    def __init__(self, graph: torch.fx.GraphModule, device: int, kind: str) -> None:
        super().__init__()
        (output,) = graph.graph.find_nodes(op="output")
        self._single = not isinstance(output.args[0], (tuple, list))
        if self._single:
            output.args = ((output.args[0],),)
            graph.recompile()
        self._run = _compile(graph, device, kind)

    def forward(self, *arguments: Any) -> Any:
        results = self._run(list(arguments))
        return results[0] if self._single else tuple(results)


def _boxed(function: Callable[..., Any]) -> Boxed:
    def boxed(arguments: list[Any]) -> Any:
        taken = list(arguments)
        arguments.clear()
        return function(*taken)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed
