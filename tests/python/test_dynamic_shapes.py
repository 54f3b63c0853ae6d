"""Dynamic shapes under torch.compile: a program for a range of sizes gives what the exact program gives.

What is padded is filled with all-ones bytes (NaN, or -1) here, so that padding which gets into a result shows.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import torchtpu
from torchtpu import _C, _dynamic


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    _dynamic.exact.clear()
    _C._set_padding_byte(-1)
    yield
    _C._set_padding_byte(0)
    torch._dynamo.reset()


def close(actual: Any, expected: Any) -> None:
    for a, e in zip(torch.utils._pytree.tree_leaves(actual), torch.utils._pytree.tree_leaves(expected), strict=True):
        if isinstance(e, torch.Tensor):
            assert a.shape == e.shape
            assert a.stride() == e.stride() or e.numel() == 0
            torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-5)
        else:
            assert a == e


def check(f: Callable[..., Any], lengths: list[int], make: Callable[[int], list[torch.Tensor]]) -> int:
    """Compares over lengths of dimension 1; gives how many programs the compiled graph was made into."""
    compiled = torch.compile(f, backend="tpu", fullgraph=True)
    with torchtpu.explain() as report:
        for n in lengths:
            torch.manual_seed(n)
            tensors = make(n)
            there = [t.to("tpu") for t in tensors]
            for tensor in there:
                torch._dynamo.mark_dynamic(tensor, 1)
            close(compiled(*there), f(*tensors))
    return sum(made.name.startswith("compiled") for made in report.compiles)


def square(x: torch.Tensor) -> torch.Tensor:
    return torch.einsum("bsd,btd->bst", x, x)


def causal(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[1]
    later = torch.arange(n, device=x.device)[None, :] > torch.arange(n, device=x.device)[:, None]
    return square(x).masked_fill(later, float("-inf")).softmax(-1) @ x


def counts(x: torch.Tensor) -> torch.Tensor:
    index = (x[..., 0] * 100).long().abs() % x.shape[1]
    return torch.zeros(x.shape[0], x.shape[1], device=x.device).scatter_add(1, index, x[..., 1])


# Functions of x, [2, n, 4], that are one program for many n.
PADDED: dict[str, Callable[[torch.Tensor], Any]] = {
    "elementwise": lambda x: x.sin() * 2 + x.exp().log1p(),
    "mean": lambda x: x.mean(1),
    "mean of all": lambda x: x.mean(),
    "variance": lambda x: x.var(1),
    "standardised": lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
    "extremes": lambda x: (x.amax(1), x.amin((0, 1)), x.argmax(1), x.max(1).values),
    "product": lambda x: x.prod(1),
    "any, all": lambda x: ((x > 0).any(1), (x > -9).all(1)),
    "norm": lambda x: (x.norm(dim=1), x.logsumexp(1)),
    "matmul": lambda x: x @ x.transpose(1, 2),
    "contraction": lambda x: x.transpose(1, 2) @ x,
    "einsum": square,
    "linear": lambda x: F.linear(x, torch.arange(12.0, device=x.device).view(3, 4)),
    "flattened": lambda x: x.flatten(0, 1) @ torch.ones(4, 5, device=x.device),
    "flattened and back": lambda x: (x.reshape(-1, 4) * 2).view(2, -1, 4),
    "flat": lambda x: x.reshape(-1).cumsum(0),
    "flat sum": lambda x: x.reshape(-1).sum() + x.reshape(-1, 2).sum(0),
    "transposed": lambda x: x.transpose(0, 1).contiguous().view(-1, 8),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "last": lambda x: (x[:, -1], x[:, -2:], x[:, :-1], x[:, 1:]),
    "halves": lambda x: x[:, x.shape[1] - 2 :] - x[:, :2],
    "flip": lambda x: x.flip(1),
    "roll": lambda x: x.roll(1, 1),
    "concatenated": lambda x: torch.cat([x, x[:, :1], x * 2], 1),
    "stacked": lambda x: torch.stack([x, x + 1], 1),
    "pad": lambda x: (F.pad(x, (0, 0, 2, 1), value=3.0), F.pad(x, (1, 1))),
    "cumulative": lambda x: (x.cumsum(1), x.cumprod(1), x.cummax(1).values, x.logcumsumexp(1)),
    "sorted": lambda x: (x.sort(1).values, x.sort(1, descending=True).indices),
    "topk": lambda x: x.topk(2, 1).values,
    "arange": lambda x: x + torch.arange(x.shape[1], device=x.device)[:, None],
    "size as number": lambda x: x / x.shape[1] + x.shape[1] * 3 - 1,
    "ones": lambda x: torch.ones(x.shape[1], device=x.device).cumsum(0) + x.sum(-1),
    "full": lambda x: torch.full((x.shape[1],), 0.5, device=x.device) * x[0, :, 0],
    "causal": causal,
    "triangle": lambda x: square(x).tril(),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "one_hot": lambda x: F.one_hot((x[..., 0] > 0).long(), 3),
    "scatter": counts,
    "gather": lambda x: x.gather(1, (x > 0).long()),
    "index": lambda x: x[:, (x[0, :, 0] > 0).long()],
    "embedding": lambda x: F.embedding((x[..., 0] > 0).long(), torch.arange(6.0, device=x.device).view(2, 3)),
    "cross_entropy": lambda x: F.cross_entropy(x.reshape(-1, 4), (x[..., 0] > 0).long().reshape(-1)),
    "mse": lambda x: F.mse_loss(x, x.flip(1)),
    "convolution": lambda x: F.conv1d(x.transpose(1, 2), torch.ones(3, 4, 3, device=x.device), padding=1),
    "repeat": lambda x: (x.repeat(1, 2, 1), x[:, None].expand(2, 3, -1, 4).reshape(6, -1, 4)),
    "where": lambda x: torch.where(x > x.mean(1, keepdim=True), x, 0.0),
    "results of numbers": lambda x: (x * 2, x.shape[1] * 2),
    "views of one result": lambda x: ((x + 1).transpose(1, 2), (x + 1)[:, 1:]),
    "unbind": lambda x: x.unbind(-1)[1] * 2,
}


# A scan of all elements takes more steps within the first bucket; a size that an index is divided by is no constant.
PARTLY = {"flat", "halves", "scatter"}


@pytest.mark.parametrize("name", PADDED)
def test_padded_programs_give_the_exact_results(name):
    lengths = [3, 7, 8, 5, 13, 9, 16, 12, 30, 17, 32, 27]
    programs = check(PADDED[name], lengths, lambda n: [torch.randn(2, n, 4)])
    if name not in PARTLY:
        assert not _dynamic.exact, _dynamic.exact
        assert programs <= 3


def test_a_language_model_decodes_with_a_growing_cache_in_few_programs():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4
    )
    model = transformers.LlamaForCausalLM(config).eval()

    def generate(run: Callable[..., Any], device: str) -> torch.Tensor:
        cache = transformers.DynamicCache(config=config)
        ids, logits = torch.arange(5)[None].to(device), []
        for _ in range(20):
            logits.append(run(ids, past_key_values=cache, use_cache=True).logits[:, -1:].cpu())
            ids = logits[-1].argmax(-1).to(device)
        return torch.cat(logits, 1)

    with torch.no_grad(), torchtpu.explain() as report:
        expected = generate(model, "cpu")
        actual = generate(torch.compile(model.to("tpu"), backend="tpu"), "tpu")
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert sum(made.name.startswith("compiled") for made in report.compiles) <= 6
