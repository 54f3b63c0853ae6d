"""What the models of the zoo met: mechanisms that whole models lean on, each as small as it can be."""

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import torchtpu


def both(program: Callable[[str], object], **tolerance: float) -> None:
    """The program's results on tpu are those on the CPU."""
    expected, found = program("cpu"), program("tpu")
    torch.testing.assert_close(found, expected, check_device=False, equal_nan=True, **tolerance)


@pytest.mark.parametrize("mask", ["none", "constant", "learned"])
def test_attention_gives_the_gradients_asked_for(mask: str) -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(2, 4, 6, 8) for _ in range(3)]
    bias = torch.randn(2, 1, 6, 6)

    def program(device: str) -> list[torch.Tensor | None]:
        leaves = [t.detach().clone().to(device).requires_grad_() for t in tensors]
        m = None if mask == "none" else bias.detach().clone().to(device).requires_grad_(mask == "learned")
        F.scaled_dot_product_attention(*leaves, attn_mask=m).square().sum().backward()
        return [t.grad for t in leaves] + ([m.grad] if m is not None and m.requires_grad else [])

    both(program, rtol=1e-4, atol=1e-5)


def test_experts_multiply_in_float32() -> None:
    torch.manual_seed(0)
    rows, weights = torch.randn(10, 8), torch.randn(3, 8, 12)

    def program(device: str) -> list[torch.Tensor | None]:
        x, w = (t.clone().to(device).requires_grad_() for t in (rows, weights))
        ends = torch.tensor([4, 4, 10], dtype=torch.int32, device=device)
        out = F.grouped_mm(x, w, offs=ends)
        out.square().sum().backward()
        return [out.detach(), x.grad, w.grad]

    both(program, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_are_not_rounded_to_half(dtype: torch.dtype) -> None:
    x = torch.arange(1, 200).to(dtype)

    def program(device: str) -> list[torch.Tensor]:
        y = x.to(device)
        return [y / 128**0.5, y * 0.1, y - 0.3, y.clone().mul_(0.3), y == y[3] * 0.1, y / 10 > 0.1]

    both(program, rtol=0, atol=0)
    assert (torch.tensor(0.1, dtype=dtype, device="tpu").expand(2) == 0.1).all()  # a comparison rounds it


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputed_dropout_draws_the_same_mask(reentrant: bool) -> None:
    x = torch.ones(1000, device="tpu", requires_grad=True)
    F.dropout(x, 0.3)
    y = checkpoint(lambda t: F.dropout(t * 1, 0.5), x, use_reentrant=reentrant)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, y.detach())
    assert 300 < (y == 0).sum().item() < 700


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("mask", [None, "causal", "padding"])
@torch.no_grad()
def test_pytorchs_fast_path_of_encoder_layers_runs_on_the_device(norm_first, mask):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(
        32, 4, 64, activation="gelu", batch_first=True, norm_first=norm_first
    ).eval()
    x = torch.randn(2, 5, 32)
    masks = {}
    if mask == "causal":
        masks["src_mask"] = torch.ones(5, 5, dtype=torch.bool).triu(1)
    if mask == "padding":
        masks["src_key_padding_mask"] = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    expected = layer(x, **masks)
    fallbacks = dict(torchtpu.fallbacks())
    found = layer.to("tpu")(x.to("tpu"), **{name: m.to("tpu") for name, m in masks.items()})
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-5)
    attention = layer.self_attn
    found = attention(x.to("tpu"), x.to("tpu"), x.to("tpu"))
    torch.testing.assert_close([t.cpu() for t in found], list(attention.cpu()(x, x, x)), rtol=1e-5, atol=1e-5)
    assert torchtpu.fallbacks() == fallbacks
