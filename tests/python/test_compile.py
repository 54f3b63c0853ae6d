"""torch.compile on tpu: what compiled code gives is what eager code gives."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import torchtpu
from torchtpu import _C


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(fn: Any, **options: Any) -> Any:
    return torch.compile(fn, backend="tpu", **options)


def mlp() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), torch.randn(3, 8)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
        self.skip = nn.Conv2d(3, 8, 1)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(self.conv1(x)).relu_()
        y = (self.norm2(self.conv2(y)) + self.skip(x)).relu()
        return self.head(F.max_pool2d(y, 2).mean((2, 3)))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48, bias=False), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        return x + F.dropout(self.out(y.transpose(1, 2).flatten(2)), 0.1, self.training)


def convnet() -> tuple[nn.Module, torch.Tensor]:
    return Residual(), torch.randn(2, 3, 8, 8)


def transformer() -> tuple[nn.Module, torch.Tensor]:
    return Block(), torch.randn(2, 5, 16)


def train(model: nn.Module, x: torch.Tensor, run: Callable[..., Any], steps: int = 3) -> list[torch.Tensor]:
    """The losses of some steps, then the parameters and buffers."""
    torch.manual_seed(3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = run(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
    return losses + [t.detach().cpu() for t in (*model.parameters(), *model.buffers())]


@pytest.mark.parametrize("make", [mlp, convnet, transformer])
def test_training_is_that_of_eager_mode_dropout_included(make):
    torch.manual_seed(0)
    model, x = make()
    model, x = model.to("tpu"), x.to("tpu")
    expected = train(copied := copy.deepcopy(model), x, copied)
    found = train(model, x, compiled(model, fullgraph=True))
    torch.testing.assert_close(found, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.strict_mode
@pytest.mark.parametrize("make", [mlp, convnet, transformer])
def test_inference_is_that_of_the_cpu_in_one_program(make):
    torch.manual_seed(0)
    model, x = make()
    model.eval()
    with torch.no_grad():
        expected = model(x)
        model, x = model.to("tpu"), x.to("tpu")
        run = compiled(model, fullgraph=True)
        torch.testing.assert_close(run(x).cpu(), expected, rtol=1e-4, atol=1e-5)
        torch.tpu.synchronize()
        before, made = _C._run_count(), _C._compile_count()
        run(x)
        assert _C._run_count() - before == 1
        assert _C._compile_count() == made


def test_the_default_backend_serves_tpu_and_leaves_the_cpu_to_inductor():
    assert torch.compile(lambda x: x.sin() + 1)(torch.ones(2, device="tpu")).tolist() == pytest.approx([1.841471] * 2)
    with pytest.raises(Exception, match="Leave the backend out"):
        torch.compile(lambda x: x.sin(), backend="inductor")(torch.ones(2, device="tpu"))


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_modes_are_taken_and_what_is_unknown_is_refused(mode):
    x = torch.ones(2, device="tpu")
    assert compiled(lambda x: x + 1, mode=mode)(x).tolist() == [2, 2]
    with pytest.raises(Exception, match="no options, found"):
        compiled(lambda x: x + 2, options={"triton.cudagraphs": True})(x)
    with pytest.raises(Exception, match="mode: expected one of"):
        compiled(lambda x: x + 3, mode="fast")(x)


def test_inputs_are_written_in_place_and_views_see_it():
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        y[0].add_(x[0])
        return x + y

    def run(function: Callable[..., Any]) -> list[torch.Tensor]:
        base = torch.arange(12.0, device="tpu").view(3, 4)
        x, y = base[:, 1:3], torch.ones(3, 2, device="tpu")
        return [function(x, y), base, y]

    torch.testing.assert_close(run(compiled(fn)), run(fn))


def test_results_that_alias_inputs_and_each_other():
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return x, x[1:], y, y.t(), y.view(-1)[2:4]

    x = torch.arange(6.0, device="tpu").view(3, 2)
    same, tail, y, transposed, part = compiled(fn)(x)
    torch.testing.assert_close([same, tail, y, transposed, part], list(fn(x)))
    x.add_(1)
    y.zero_()
    assert same is x or torch.equal(same.cpu(), x.cpu())
    assert torch.equal(tail.cpu(), x[1:].cpu())
    assert transposed.sum().item() == 0 and part.sum().item() == 0


def test_geometries_of_inputs_are_told_apart():
    run = compiled(lambda x: x.sum(0) - x[0], dynamic=False)
    base = torch.arange(24.0, device="tpu")
    rows = base.view(4, 6)
    for x in (rows, base.view(6, 4).t(), base[::2].view(4, 3), rows[:, :3], base.as_strided((3, 4), (2, 1))):
        torch.testing.assert_close(run(x).cpu(), (x.cpu().sum(0) - x.cpu()[0]))


def test_inputs_that_share_memory():
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * y

    def use(function: Callable[..., Any], pick: Callable[..., Any]) -> list[torch.Tensor]:
        base = torch.arange(4.0, device="tpu")
        return [function(*pick(base)), base]

    for pick in (lambda b: (b, b.clone()), lambda b: (b, b), lambda b: (b[:2], b[2:]), lambda b: (b[:3], b[1:])):
        torch.testing.assert_close(use(compiled(fn), pick), use(fn, pick))


def test_random_numbers_are_those_of_eager_mode_and_new_each_call():
    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        return [F.dropout(x, 0.3), torch.rand(5, device=x.device), torch.randn_like(x), torch.bernoulli(x * 0.5)]

    x = torch.ones(64, device="tpu")
    torch.manual_seed(5)
    expected = [fn(x), fn(x)]
    torch.manual_seed(5)
    run = compiled(fn)
    torch.testing.assert_close([run(x), run(x)], expected, rtol=0, atol=0)


def test_numbers_that_change_do_not_recompile():
    run = compiled(lambda x, scale: x * scale, dynamic=True)
    x = torch.ones(3, device="tpu")
    for scale in (0.5, 0.25, 3.5):
        assert run(x, scale).tolist() == [scale] * 3
    made = _C._compile_count()
    for scale in (7.5, 9.25):
        assert run(x, scale).tolist() == [scale] * 3
        assert run(x, torch.tensor(scale)).tolist() == [scale] * 3
    assert _C._compile_count() - made <= 1


def test_tensors_of_the_host_come_and_go():
    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        table = torch.arange(3.0)
        constant = torch.tensor([1.0, 2.0, 3.0], device=x.device) * torch.tensor(2.0)
        return x + (y + table).to(x.device) + constant, y * table

    run = compiled(fn)
    for k in range(2):
        x, y = torch.ones(3, device="tpu"), torch.full((3,), float(k))
        there, here = run(x, y)
        assert there.device.type == "tpu" and here.device.type == "cpu"
        torch.testing.assert_close([there, here], list(fn(x, y)))


def test_dynamic_shapes():
    run = compiled(lambda x: F.softmax(x @ x.t(), -1).reshape(-1)[: x.shape[0]], dynamic=True)
    for n in (3, 5, 8, 5):
        x = torch.randn(n, 4, device="tpu")
        expected = F.softmax(x.cpu() @ x.cpu().t(), -1).reshape(-1)[:n]
        torch.testing.assert_close(run(x).cpu(), expected, rtol=1e-5, atol=1e-5)


def test_graph_breaks_continue_in_eager_mode():
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        if y.sum() > 0:
            y = y + 1
        return y.cos()

    for value in (1.0, -1.0):
        x = torch.full((3,), value, device="tpu")
        torch.testing.assert_close(compiled(fn)(x), fn(x))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(fn, fullgraph=True)(x)
    torch._dynamo.reset()
    with torchtpu.explain() as report:
        compiled(fn)(x)
    assert "breaks, where eager mode takes over" in str(report)
    assert {"compiled inference"} <= {made.name for made in report.compiles}


def test_an_op_that_needs_the_host_splits_the_graph():
    @torch.library.custom_op("torchtpu_test::on_host", mutates_args=())
    def on_host(x: torch.Tensor) -> torch.Tensor:
        return torch.tensor(x.cpu().numpy()[::-1].copy()).to(x.device)

    on_host.register_fake(torch.empty_like)
    run = compiled(lambda x: on_host(x * 2 + 1).sin() + on_host(x), fullgraph=True)
    for _ in range(2):
        x = torch.arange(3.0, device="tpu")
        expected = (x.cpu() * 2 + 1).flip(0).sin() + x.cpu().flip(0)
        torch.testing.assert_close(run(x).cpu(), expected)


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_cond(value):
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() * 2, (x,))

    x = torch.full((3,), value, device="tpu")
    torch.testing.assert_close(compiled(fn, fullgraph=True)(x).cpu(), fn(x.cpu()))


def test_while_loop():
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch._higher_order_ops.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * 2), (x.sum(), x))

    x = torch.ones(2, device="tpu")
    found = compiled(fn, fullgraph=True)(x)
    torch.testing.assert_close([t.cpu() for t in found], [torch.tensor(4.0), torch.full((2,), 4.0)])


def test_autocast():
    model, x = mlp()
    model, x = model.to("tpu"), x.to("tpu")

    def fn(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("tpu", torch.bfloat16):
            return model(x)

    found = compiled(fn)(x)
    assert found.dtype is torch.bfloat16
    torch.testing.assert_close(found, fn(x), rtol=2e-2, atol=2e-2)
    with torch.autocast("tpu"):
        assert compiled(model)(x).dtype is torch.bfloat16


def test_activation_checkpointing_recomputes_the_same_dropout():
    x = torch.ones(200, device="tpu", requires_grad=True)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda t: F.dropout(t * 1, 0.5).sin(), x, use_reentrant=False)

    y = compiled(fn)(x)
    y.sum().backward()
    kept = y.detach() != 0
    assert 50 < kept.sum().item() < 150
    torch.testing.assert_close(x.grad != 0, kept)


def test_another_process_finds_the_programs_in_the_cache():
    from process import run

    code = """
import torch, torchtpu
from torchtpu import _C
model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Tanh()).to("tpu")
torch.compile(model)(torch.ones(3, 7, device="tpu")).sum().backward()
torch.tpu.synchronize()
torchtpu.cache.wait()
print(_C._compile_count())
"""
    run(code)
    assert run(code) == "0"


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_whole_step_is_one_program_and_trains_as_eager_mode_does(name):
    torch.manual_seed(0)
    model, x = convnet() if name == "sgd" else mlp() if name == "rmsprop" else transformer()
    model, x = model.to("tpu"), x.to("tpu")
    copied = copy.deepcopy(model)

    def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return (model(x) - 1).square().mean()

    def eager(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[..., torch.Tensor]:
        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, x)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    def run(make: Callable[..., Any], model: nn.Module) -> list[torch.Tensor]:
        torch.manual_seed(1)
        optimizer = OPTIMIZERS[name](model.parameters())
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
        step, losses = make(model, optimizer), []
        for i in range(6):
            if i == 3:
                torch.tpu.synchronize()
                counts.append((_C._compile_count(), _C._run_count()))
            losses.append(step(x))
            schedule.step()
        torch.tpu.synchronize()
        counts.append((_C._compile_count(), _C._run_count()))
        return [t.detach().cpu() for t in (*losses, *model.parameters(), *model.buffers())]

    counts: list[tuple[int, int]] = []
    expected = run(eager, copied)
    found = run(lambda m, o: torchtpu.compile_step(m, o, loss_of), model)
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-4)
    assert counts[3][0] == counts[2][0]
    assert counts[3][1] - counts[2][1] <= 2 * 3  # the step, and a new learning rate


@pytest.mark.strict_mode
def test_a_step_gives_its_memory_to_the_next():
    model = nn.Linear(512, 512, bias=False, device="tpu")
    step = torchtpu.compile_step(model, torch.optim.AdamW(model.parameters()), lambda m, x: m(x).square().mean())
    x = torch.ones(2, 512, device="tpu")
    for _ in range(3):
        step(x)
    torch.tpu.synchronize()
    torch.tpu.reset_peak_memory_stats()
    for _ in range(3):
        step(x)
        torch.tpu.synchronize()
    stats = torch.tpu.memory_stats()
    assert stats["reserved_bytes.all.peak"] <= 1.1 * stats["reserved_bytes.all.current"]


def test_a_step_refuses_what_it_cannot_do():
    model = nn.Linear(2, 2, device="tpu")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.ones(1, 2, device="tpu")
    step = torchtpu.compile_step(model, optimizer, lambda m, x: m(x).sum())
    with pytest.raises(ValueError, match="expected a batch on tpu"):
        step(torch.ones(1, 2))
    adafactor = torch.optim.Adafactor(model.parameters(), 0.1)
    with pytest.raises(NotImplementedError, match="neither 'fused' nor 'capturable'"):
        torchtpu.compile_step(model, adafactor, lambda m, x: m(x).sum())(x)
    before = [p.clone() for p in model.parameters()]
    reads = torchtpu.compile_step(model, optimizer, lambda m, x: m(x).sum() * (2 if m(x).sum() > 1e9 else 1))
    reads(x)
    with pytest.raises(NotImplementedError, match="inside a captured function"):
        reads(x)
    seen = torch.zeros((), device="tpu")
    counts = torchtpu.compile_step(model, optimizer, lambda m, x: m(x).sum() + seen.add_(1))
    counts(x)
    with pytest.raises(NotImplementedError, match="Pass it as an argument"):
        counts(x)
    assert seen.item() == 1
    assert all(p.grad is None for p in model.parameters())
    step(x)
    assert not torch.equal(before[0].cpu(), model.weight.detach().cpu())
