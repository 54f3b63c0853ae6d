"""torch.compile and operators that take functions, tensor subclasses, and graphs with arguments that are no tensors."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from process import run as run_process
from torch import nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import torchtpu
from torchtpu import _C


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def to_cpu(values: Any) -> Any:
    return tree_map_only(torch.Tensor, lambda t: t.detach().cpu(), values)


def check(fn: Callable[..., Any], *arguments: Any, gradients: bool = False, expected: Any = None) -> Any:
    """Compiled on tpu against uncompiled on the CPU, in one graph that is not split; gives the report."""
    there = tree_map_only(torch.Tensor, lambda t: t.detach().to("tpu").requires_grad_(t.requires_grad), arguments)
    expected = fn(*arguments) if expected is None else expected
    with torchtpu.explain() as report:
        found = torch.compile(fn, backend="tpu", fullgraph=True)(*there)
        torch.testing.assert_close(to_cpu(found), to_cpu(expected), rtol=1e-4, atol=1e-5)
        if gradients:
            found.backward()
            expected.backward()
            for a, e in zip(there, arguments, strict=True):
                if e.requires_grad:
                    torch.testing.assert_close(a.grad.cpu(), e.grad, rtol=1e-4, atol=1e-5)
    assert not report.breaks, report.breaks
    return report


def recurrence(carry: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return carry * 0.5 + x, (carry * x).sin()


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_is_one_loop_whatever_its_length(reverse):
    def fn(carry: torch.Tensor, xs: torch.Tensor) -> Any:
        return scan(recurrence, carry, xs.t(), dim=0, reverse=reverse)

    check(fn, torch.randn(4), torch.randn(4, 300))


def test_scan_with_several_arrays_and_tensors_from_outside():
    def fn(w: torch.Tensor, xs: torch.Tensor) -> Any:
        def step(carry: Any, x: Any) -> Any:
            a, n = carry
            return (torch.tanh(a @ w + x["x"]), n + x["i"]), {"a": a * 1, "sum": a.sum() + n}

        start = (torch.zeros(2, 3, device=xs.device), torch.ones((), dtype=torch.int64, device=xs.device))
        return scan(step, start, {"x": xs, "i": torch.arange(len(xs), device=xs.device)}, dim=0)

    check(fn, torch.randn(3, 3), torch.randn(5, 2, 3))


def test_gradients_of_scan():
    def fn(carry: torch.Tensor, xs: torch.Tensor) -> torch.Tensor:
        last, rows = scan(recurrence, carry, xs, dim=0)
        return last.sum() + rows.square().sum()

    def unrolled(carry: torch.Tensor, xs: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(())
        for x in xs:
            carry, row = recurrence(carry, x)
            total = total + row.square().sum()
        return carry.sum() + total

    carry, xs = torch.randn(4, requires_grad=True), torch.randn(7, 4, requires_grad=True)
    check(fn, carry, xs, gradients=True, expected=unrolled(carry, xs))


def test_associative_scan():
    check(lambda x: associative_scan(torch.mul, x, dim=1, combine_mode="generic"), torch.rand(3, 9) + 0.5)


@pytest.mark.strict_mode
def test_while_loop_is_one_program_and_reads_no_data():
    def fn(x: torch.Tensor, limit: torch.Tensor) -> Any:
        zero = torch.zeros((), dtype=torch.int64, device=x.device)
        return while_loop(lambda i, y: y.sum() < limit, lambda i, y: (i + 1, y * 2 + limit * 0), (zero, x[3:]))

    x, limit = torch.ones(6), torch.tensor(100.0)
    check(fn, x, limit)
    run = torch.compile(fn, backend="tpu")
    there = x.to("tpu"), limit.to("tpu")
    run(*there)
    torch.tpu.synchronize()
    before = _C._run_count()
    turns, _ = run(*there)
    assert turns.item() == 6 and _C._run_count() - before == 1


def test_loops_that_draw_random_numbers_or_change_shape_run_between_programs():
    def fn(x: torch.Tensor) -> torch.Tensor:
        return scan(lambda c, x: (c + 0 * torch.rand_like(c), c + x), x[0], x, dim=0)[0] * 2

    x = torch.ones(3, 2)
    with torchtpu.explain() as report:
        found = torch.compile(fn, backend="tpu")(x.to("tpu"))
    assert found.tolist() == [2.0, 2.0]
    assert any("random numbers" in made.reason for made in report.breaks)


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_gradients_of_cond_and_a_branch_in_a_branch(value):
    def inner(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 10, torch.sin, torch.cos, (x,)) * 2

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, inner, torch.exp, (x,)).sum()

    x = torch.full((3,), value, requires_grad=True)
    expected = (2 * x.cos() if value > 0 else x.exp()).sum()
    check(fn, x, gradients=True, expected=expected)


def test_flex_attention_and_its_gradients():
    def fn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        def causal(score: Any, batch: Any, head: Any, i: Any, j: Any) -> Any:
            return torch.where(i >= j, score, -float("inf"))

        return flex_attention(q, k, v, score_mod=causal).square().sum()

    q, k, v = (torch.randn(1, 2, 16, 8, requires_grad=True) for _ in range(3))
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True).square().sum()
    check(fn, q, k, v, gradients=True, expected=expected)


def test_flex_attention_with_a_block_mask():
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="tpu")
    q, k, v = (torch.randn(1, 2, 128, 8) for _ in range(3))
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    check(lambda q, k, v: flex_attention(q, k, v, block_mask=mask), q, k, v, expected=expected)


def test_flex_attention_refuses_as_ever_what_the_cpu_cannot():
    q = torch.randn(1, 2, 16, 8, requires_grad=True)
    with pytest.raises(Exception, match="does not support backward on CPU"):
        torch.compile(flex_attention, fullgraph=True)(q, q, q)


def test_custom_operators():
    @torch.library.custom_op("torchtpu_test::scaled", mutates_args=())
    def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by

    scaled.register_fake(lambda x, by: torch.empty_like(x))
    scaled.register_autograd(
        lambda ctx, g: (g * ctx.by, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1])
    )

    @torch.library.custom_op("torchtpu_test::increment", mutates_args=("x",))
    def increment(x: torch.Tensor) -> None:
        x.add_(1)

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = scaled(x.sin(), 3.0)
        z = y.detach() * 2
        increment(z)
        return (y * z).sum()

    check(fn, torch.randn(5, requires_grad=True), gradients=True)


def test_what_is_exported_runs_compiled_and_not():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    x = torch.randn(3, 4)
    expected = model(x)
    rows = torch.export.Dim("rows", min=2, max=9)
    exported = torch.export.export(model.to("tpu"), (x.to("tpu"),), dynamic_shapes={"input": {0: rows}}).module()
    for run in (exported, torch.compile(exported, backend="tpu")):
        torch.testing.assert_close(to_cpu(run(x.to("tpu"))), expected.detach(), rtol=1e-4, atol=1e-5)


def test_selective_activation_checkpointing():
    def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        saved = op == torch.ops.aten.mm.default
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda x: (x @ w).sin().exp(), x, use_reentrant=False, context_fn=contexts).sum()

    check(fn, torch.randn(3, 4), torch.randn(4, 4, requires_grad=True), gradients=True)


def test_regions_that_dynamo_traces_once():
    region = torch.compiler.nested_compile_region(lambda block, x: block(x) + x)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.GELU()) for _ in range(4)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = region(block, x)
            return x

    model, x = Model(), torch.randn(3, 8)
    there = copy.deepcopy(model).to("tpu")
    expected = model(x)
    expected.sum().backward()
    found = torch.compile(there, backend="tpu", fullgraph=True)(x.to("tpu"))
    found.sum().backward()
    torch.testing.assert_close(to_cpu(found), expected.detach(), rtol=1e-4, atol=1e-5)
    for a, e in zip(there.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a.grad.cpu(), e.grad, rtol=1e-4, atol=1e-5)


def test_a_step_with_its_backward_pass_and_optimizer_in_one_function():
    """Compiled autograd."""
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    there = copy.deepcopy(model).to("tpu")
    x = torch.randn(3, 4)

    def step_of(model: nn.Module, x: torch.Tensor) -> Callable[[], torch.Tensor]:
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)

        def step() -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    eager = step_of(model, x)
    with torch._dynamo.config.patch(compiled_autograd=True):
        step = torch.compile(step_of(there, x.to("tpu")), backend="tpu")
        for i in range(5):
            if i == 3:
                torch.tpu.synchronize()
                made = _C._compile_count()
            torch.testing.assert_close(step().cpu(), eager(), rtol=1e-4, atol=1e-5)
    assert _C._compile_count() == made
    torch.testing.assert_close(to_cpu(list(there.parameters())), to_cpu(list(model.parameters())), rtol=1e-3, atol=1e-4)


def test_ragged_tensors():
    def fn(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return (torch.nested.nested_tensor_from_jagged(values, offsets).sin() * 2).values().sum()

    values = torch.randn(5, 4, device="tpu", requires_grad=True)
    torch.compile(fn, backend="tpu")(values, torch.tensor([0, 2, 5], device="tpu")).backward()
    torch.testing.assert_close(values.grad.cpu(), values.detach().cpu().cos() * 2)
    ragged = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], layout=torch.jagged, device="tpu")
    found = torch.compile(lambda x: x.sin() * 2, backend="tpu", fullgraph=True)(ragged)
    torch.testing.assert_close(found.values().cpu(), ragged.values().cpu().sin() * 2)


def test_dtensors():
    code = """
import torch, torch.distributed as dist
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
dist.init_process_group("tpu", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
mesh = init_device_mesh("tpu", (1,))
x = distribute_tensor(torch.ones(4, 4, device="tpu"), mesh, [Shard(0)])
w = distribute_tensor(torch.ones(4, 4, device="tpu"), mesh, [Shard(1)]).requires_grad_()
run = torch.compile(lambda x, w: (x @ w).redistribute(mesh, [Replicate()]), backend="tpu", fullgraph=True)
y = run(x, w)
assert y.to_local().tolist() == [[4.0] * 4] * 4
y.sum().backward()
print(w.grad.to_local().sum().item())
dist.destroy_process_group()
"""
    assert run_process(code) == "64.0"
