"""Models whose inputs change their length, compiled: few programs, and the CPU's results.

Some lengths by default; TORCHTPU_SWEEP=full serves 200 of them, up to 2048, and takes more random models.
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import torchtpu
from torchtpu import _C, _dynamic
from torchtpu._registration import plugin_file

FULL = os.environ.get("TORCHTPU_SWEEP") == "full"


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    _dynamic.exact.clear()
    _C._set_padding_byte(-1)  # NaN: padding that gets into a result shows
    yield
    _C._set_padding_byte(0)
    torch._dynamo.reset()


def programs(report: Any) -> int:
    """How many programs compiled graphs were made into."""
    return sum(made.name.startswith("compiled") for made in report.compiles)


def close(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)


class Layer(nn.Module):
    """A decoder's: causal attention with rotary positions, then a network."""

    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.network = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.network(self.norm2(x))


def rotated(x: torch.Tensor) -> torch.Tensor:
    """Su et al., "RoFormer", 2021."""
    half = x.shape[-1] // 2
    rates = 1000.0 ** (-torch.arange(half, device=x.device) / half)
    angles = torch.arange(x.shape[-2], device=x.device)[:, None] * rates
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


class LanguageModel(nn.Module):
    def __init__(self, words: int = 50, width: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.Sequential(*[Layer(width) for _ in range(layers)])
        self.head = nn.Linear(width, words)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embedding(ids)))


def test_a_language_model_served_at_many_lengths_compiles_at_most_12_programs():
    torch.manual_seed(0)
    longest, count = (2048, 200) if FULL else (128, 16)
    model = LanguageModel().eval()
    lengths = [1, longest, *random.Random(0).sample(range(2, longest), count - 2)]
    random.Random(1).shuffle(lengths)
    with torch.no_grad(), torchtpu.explain() as report:
        run = torch.compile(copy.deepcopy(model).to("tpu"), backend="tpu")
        for n in lengths:
            ids = torch.randint(0, 50, (1, n))
            close(run(ids.to("tpu")), model(ids))
    assert not _dynamic.exact, _dynamic.exact
    assert programs(report) <= (12 if FULL else 8)


def test_bounds_of_mark_dynamic_are_the_programs_bounds():
    """From 20 to 40: one program of 32 at most, and one of 40."""
    run = torch.compile(lambda x: x.softmax(0) @ x.sum(0), backend="tpu")
    made = []
    with torchtpu.explain() as report:
        for n in (20, 31, 25, 32, 40, 33, 38):
            x = torch.randn(n, 4)
            there = x.to("tpu")
            torch._dynamo.mark_dynamic(there, 0, min=20, max=40)
            close(run(there), x.softmax(0) @ x.sum(0))
        made = [program.inputs if hasattr(program, "inputs") else program.name for program in report.compiles]
    assert not _dynamic.exact, _dynamic.exact
    assert programs(report) == 2, made


def train(model: nn.Module, run: Callable[..., Any], lengths: list[int], device: str) -> list[torch.Tensor]:
    """The losses, then the parameters."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    losses = []
    for n in lengths:
        ids = torch.randint(0, 50, (2, n + 1), generator=torch.Generator().manual_seed(n)).to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(run(ids[:, :-1].contiguous()).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
    return losses + [p.detach().cpu() for p in model.parameters()]


def test_training_at_changing_lengths():
    torch.manual_seed(0)
    model = LanguageModel(layers=1)
    lengths = [9, 12, 5, 16, 10, 30, 17, 32, 7, 25]
    there = copy.deepcopy(model).to("tpu")
    expected = train(model, model, lengths, "cpu")
    with torchtpu.explain() as report:
        found = train(there, torch.compile(there, backend="tpu"), lengths, "tpu")
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    assert not _dynamic.exact, _dynamic.exact
    assert programs(report) <= 8  # forward and backward: of the first length, and up to 8, 16 and 32


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_decoding_compiles_a_constant_number_of_programs(kind):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4
    )
    model = transformers.LlamaForCausalLM(config).eval()
    counts = []

    def generate(run: Callable[..., Any], device: str, tokens: int) -> torch.Tensor:
        made = (
            transformers.StaticCache(config=config, max_cache_len=48)
            if kind == "static"
            else transformers.DynamicCache(config=config)
        )
        ids, logits = torch.arange(5)[None].to(device), []
        for _ in range(tokens):
            logits.append(run(ids, past_key_values=made, use_cache=True).logits[:, -1:].cpu())
            ids = logits[-1].argmax(-1).to(device)
        return torch.cat(logits, 1)

    with torch.no_grad():
        run = torch.compile(copy.deepcopy(model).to("tpu"), backend="tpu")
        for tokens in (12, 27, 27):  # up to 17 and 32 positions
            with torchtpu.explain() as report:
                found = generate(run, "tpu", tokens)
            torch.testing.assert_close(found, generate(model, "cpu", tokens), rtol=1e-4, atol=1e-5)
            counts.append(programs(report))
    assert counts[0] >= 1 and counts[2] == 0
    if kind == "static":
        assert counts[0] <= 2 and counts[1] == 0
    else:
        assert sum(counts) <= 6


# Layers of [batch, n, 8] to the same shape.
WIDTH = 8


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x, x, x, need_weights=False)[0]


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x.transpose(1, 2)).transpose(1, 2)


class Of(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


LAYERS: list[Callable[[], nn.Module]] = [
    lambda: nn.Linear(WIDTH, WIDTH),
    lambda: nn.LayerNorm(WIDTH),
    lambda: nn.Sequential(nn.Linear(WIDTH, 12), nn.SiLU(), nn.Linear(12, WIDTH)),
    nn.GELU,
    Attention,
    Convolution,
    lambda: Of(lambda x: x - x.mean(1, keepdim=True)),
    lambda: Of(lambda x: x.softmax(1) * x.shape[1]),
    lambda: Of(lambda x: x.cumsum(1) / torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]),
    lambda: Of(lambda x: x + F.pad(x, (0, 0, 1, 0))[:, :-1]),
    lambda: Of(lambda x: x.flip(1) * 0.5 + x),
    lambda: Of(lambda x: torch.cat([x[:, -1:], x[:, :-1]], 1)),
    lambda: Of(lambda x: torch.where(x > x.amax(1, keepdim=True) * 0.5, x, x * 0.1)),
    lambda: Of(lambda x: (x @ x.transpose(1, 2)).tril().tanh() @ x),
    lambda: Of(lambda x: x.flatten(0, 1).view(x.shape) + x.reshape(-1, WIDTH // 2).view(x.shape)),
]
HEADS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: x,
    lambda x: x.mean(1),
    lambda x: x[:, -1],
    lambda x: x.amax(1),
    lambda x: x.std(),
    lambda x: x.transpose(0, 1),
    lambda x: x.flatten(1).norm(dim=1),
    lambda x: F.log_softmax(x.flatten(0, 1), -1),
]


def same(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Of float64 arrays: up to the rounding of their largest element."""
    largest = max(1.0, expected.detach().abs().max().item())
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-9, atol=1e-9 * largest)


@pytest.mark.parametrize("seed", range(60 if FULL else 5))
def test_random_models_at_random_lengths_give_the_cpus_results_and_gradients(seed):
    choose = random.Random(seed)
    torch.manual_seed(seed)
    head = choose.choice(HEADS)
    # In float64: what differs is then no rounding.
    model = nn.Sequential(*[choose.choice(LAYERS)() for _ in range(choose.randint(2, 5))], Of(head)).double()
    there = copy.deepcopy(model).to("tpu")
    run = torch.compile(there, backend="tpu", dynamic=True, fullgraph=True)
    for _ in range(8 if FULL else 4):
        n = choose.choice([choose.randint(2, 20), choose.randint(2, 70)])
        x = torch.randn(choose.choice([2, 3]), n, WIDTH, dtype=torch.float64)
        here, away = x.clone().requires_grad_(), x.to("tpu").requires_grad_()
        expected, found = model(here), run(away)
        same(found, expected)
        weight = torch.randn_like(expected)
        (expected * weight).sum().backward()
        (found * weight.to("tpu")).sum().backward()
        same(away.grad, here.grad)
        for a, e in zip(there.parameters(), model.parameters(), strict=True):
            same(a.grad, e.grad)
            a.grad = e.grad = None


@pytest.mark.skipif(not plugin_file("libtpu", "libtpu.so"), reason="libtpu is not installed")
@pytest.mark.parametrize("topology", ["v5e:2x2", "v6e:2x2"] if FULL else ["v6e:2x2"])
def test_the_tpu_compiler_takes_padded_programs(topology):
    torch.manual_seed(0)
    model = LanguageModel(layers=1).to("tpu")
    run = torch.compile(model, backend="tpu")
    _C._record_programs(True)
    try:
        for n in (10, 12, 11):
            ids = torch.zeros(1, n, dtype=torch.long, device="tpu")
            F.cross_entropy(run(ids).flatten(0, 1), ids.flatten()).backward()
        torch.tpu.synchronize()
        texts = [text for name, text in _C._take_programs() if name.endswith("in a bucket")]
    finally:
        _C._record_programs(False)
    assert len(set(texts)) == 2  # forward and backward
    for text in set(texts):
        _C._compile_for(text=text, topology=topology, plugin=plugin_file("libtpu", "libtpu.so"))
