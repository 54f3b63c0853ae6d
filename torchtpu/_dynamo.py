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
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    return backend(graph, example_inputs)


def default(graph: torch.fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """What `torch.compile` without a backend means: `tpu` for a graph with tpu tensors, inductor for any other."""
    if _is_on_tpu(graph, example_inputs):
        return tpu(graph, example_inputs, **kwargs)
    inductor = torch._TorchCompileInductorWrapper(kwargs.get("mode"), kwargs.get("options"), None)
    return inductor(graph, example_inputs)


def _is_on_tpu(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    values = [*example_inputs, *(node.meta.get("example_value") for node in graph.graph.nodes)]
    return any(isinstance(value, torch.Tensor) and value.device.type == "tpu" for value in values)
