"""The real TPU compiler accepts what we emit: programs of OpInfo samples, compiled for topologies without hardware.

A fast subset by default; TORCHTPU_SWEEP=full takes every operator and both topologies.
"""

from __future__ import annotations

import functools
import os
import warnings

import pytest
import torch

import torchtpu
from torchtpu import _C, aot
from torchtpu._registration import plugin_file

FULL = os.environ.get("TORCHTPU_SWEEP") == "full"
TOPOLOGIES = ["v5e:2x2", "tpu7x:2x2x1"] if FULL else ["v5e:2x2"]
FAST_OPS = {
    "add", "mul", "exp", "tanh", "where", "sum", "mean", "amax", "argmax", "cumsum", "sort", "topk", "softmax",
    "nn.functional.layer_norm", "nn.functional.batch_norm", "nn.functional.gelu", "mm", "baddbmm",
    "nn.functional.conv2d",
    "nn.functional.max_pool2d", "gather", "scatter_add", "index_put", "nn.functional.embedding", "cat", "tril", "flip",
    "nn.functional.dropout", "randn_like", "nn.functional.scaled_dot_product_attention", "to", "arange",
}  # fmt: skip

needs_libtpu = pytest.mark.skipif(not plugin_file("libtpu", "libtpu.so"), reason="libtpu is not installed")


@functools.cache
def programs_of_samples() -> dict[str, str]:
    """The StableHLO of every program that one float32 sample of each operator runs, by text."""
    from torch.testing._internal.common_methods_invocations import op_db

    programs: dict[str, str] = {}
    _C._record_programs(True)
    try:
        for op in op_db:
            if not FULL and op.name not in FAST_OPS:
                continue
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                try:
                    sample = next(iter(op.sample_inputs("cpu", torch.float32)))
                    moved = sample.transform(lambda x: x.to("tpu") if isinstance(x, torch.Tensor) else x)
                    op(moved.input, *moved.args, **moved.kwargs)
                except (RuntimeError, NotImplementedError, TypeError, AssertionError, StopIteration):
                    continue  # correctness is test_opinfo.py's business
            for name, text in _C._take_programs():
                programs.setdefault(text, f"{name} ({op.full_name})")
    finally:
        _C._record_programs(False)
    return programs


@needs_libtpu
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_every_program_compiles_for_a_tpu(topology: str) -> None:
    programs = programs_of_samples()
    assert len(programs) >= len(FAST_OPS) // 2
    plugin = plugin_file("libtpu", "libtpu.so")
    refused = []
    for text, name in programs.items():
        try:
            _C._compile_for(text=text, topology=topology, plugin=plugin)
        except RuntimeError as error:
            refused.append(f"{name}: {str(error)[:300]}")
    assert not refused, f"{len(refused)} of {len(programs)} programs:\n" + "\n".join(refused)


@needs_libtpu
def test_compile_says_what_the_compiler_knows() -> None:
    w = torch.randn(64, 64, device="tpu")

    def step(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ w).sum()

    compiled = aot.compile(step, [torch.randn(8, 64, device="tpu")], topology="v5e:2x2")
    assert compiled.cost["flops"] >= 2 * 8 * 64 * 64
    assert compiled.memory["argument"] >= 4 * (8 * 64 + 64 * 64)
    assert "dot" in compiled.hlo or "convolution" in compiled.hlo
    assert "stablehlo.dot_general" in compiled.stablehlo


@needs_libtpu
def test_unknown_topology_is_the_compilers_own_error() -> None:
    with pytest.raises(RuntimeError, match=r"(?i)topology|v99"):
        aot.compile(lambda x: x + 1, [torch.ones(2, device="tpu")], topology="v99:2x2")


def test_trace_runs_nothing_and_changes_nothing() -> None:
    x = torch.arange(4.0, device="tpu")
    runs = _C._run_count()
    text = aot.trace(lambda t: t.add_(1).mul(2), [x])
    assert _C._run_count() == runs
    assert text.count("stablehlo.add") == 1
    assert x.tolist() == [0, 1, 2, 3]


def test_what_is_written_is_a_result_unless_it_stays_as_it_was() -> None:
    x, y = torch.zeros(2, device="tpu"), torch.ones(2, device="tpu")
    assert ", %arg0 :" in aot.trace(lambda a, b: (b.copy_(a), a * 2)[1], [x, y])
    norm = torch.nn.BatchNorm1d(2).to("tpu").eval()
    assert ") -> (tensor<3x2xf32>) {" in aot.trace(norm, [torch.ones(3, 2, device="tpu")])


def test_reading_data_inside_a_traced_function_is_refused() -> None:
    x = torch.ones(2, device="tpu")
    with pytest.raises(NotImplementedError, match="inside a captured function"):
        aot.trace(lambda t: t * t.sum().item(), [x + 0])
    assert (x + 1).tolist() == [2, 2]


def test_a_tensor_leaked_from_a_traced_function_says_so() -> None:
    leaked = []
    aot.trace(lambda t: leaked.append(t * 2) or t, [torch.ones(2, device="tpu")])
    with pytest.raises(RuntimeError, match="captured function"):
        leaked[0].cpu()
    assert torchtpu.get_mode() == "strict"
