"""The Dynamo backend `tpu`: `torch.compile(model, backend="tpu")`, and what the default backend is for tpu tensors.

AOTAutograd makes a forward and a backward graph of ATen ops; each becomes one program (`_graph.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import register_graphsafe_rng_device_type
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torchtpu._graph import compile_graph

# Inductor's names for ways to run: here a graph is one program that is launched once, whichever is asked for.
_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")

register_graphsafe_rng_device_type("tpu")


def tpu(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles a graph of Dynamo's for the tensors' tpu device."""
    if mode is not None and mode not in _MODES:
        raise ValueError(f"torch.compile: mode: expected one of {', '.join(_MODES)}, found {mode!r}")
    if options:
        raise ValueError(
            f"torch.compile: the tpu backend has no options, found {sorted(options)}. They are inductor's: "
            "leave them out."
        )
    backend = aot_autograd(
        fw_compiler=functools.partial(compile_graph, kind="forward"),
        bw_compiler=functools.partial(compile_graph, kind="backward"),
        inference_compiler=functools.partial(compile_graph, kind="inference"),
        partition_fn=_partition,
        keep_inference_input_mutations=True,
    )
    return backend(graph, example_inputs)


def _partition(joint: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> tuple[Any, Any]:
    """Forward and backward graphs. What the backward pass needs of changing size is kept whole: a part of a larger
    tensor, or one with gaps, is copied, as a program for many sizes takes no such argument.
    """
    forward, backward = min_cut_rematerialization_partition(joint, inputs, **options)
    (output,) = forward.graph.find_nodes(op="output")
    taken = {node.name: node for node in backward.graph.find_nodes(op="placeholder")}
    results = list(output.args[0])
    for i in range(options["num_fwd_outputs"], len(results)):
        node = results[i]
        value = node.meta.get("val")
        if node.name not in taken or not isinstance(value, torch.Tensor) or _is_whole(value):
            continue
        with forward.graph.inserting_before(output):
            results[i] = forward.graph.call_function(
                torch.ops.aten.clone.default, (node,), {"memory_format": torch.contiguous_format}
            )
        with value.fake_mode:
            copy = value.clone(memory_format=torch.contiguous_format)
        results[i].meta["val"] = taken[node.name].meta["val"] = copy
    output.args = (tuple(results),)
    forward.recompile()
    return forward, backward


def _is_whole(value: torch.Tensor) -> bool:
    """Of constant size, or all of its storage without gaps."""
    if not any(isinstance(size, torch.SymInt) for size in value.shape):
        return True
    size_bytes = value.numel() * value.itemsize
    return is_non_overlapping_and_dense_or_false(value) and statically_known_true(
        value.untyped_storage().nbytes() == size_bytes
    )


def default(graph: torch.fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """What `torch.compile` without a backend means: `tpu` for a graph with tpu tensors, inductor for any other."""
    if _is_on_tpu(graph, example_inputs):
        return tpu(graph, example_inputs, **kwargs)
    inductor = torch._TorchCompileInductorWrapper(kwargs.get("mode"), kwargs.get("options"), None)
    return inductor(graph, example_inputs)


def _is_on_tpu(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    values = [*example_inputs, *(node.meta.get("example_value") for node in graph.graph.nodes)]
    return any(isinstance(value, torch.Tensor) and value.device.type == "tpu" for value in values)
