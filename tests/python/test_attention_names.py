"""Attention under CUDA's names, which programs and DTensor call: values and gradients against the CPU's composite."""

import pytest
import torch
import torch.nn.functional as F

aten = torch.ops.aten
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def tensors(*heads: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, h, 40, 8) for h in heads]


def compare(found: torch.Tensor, device: list[torch.Tensor], wanted: torch.Tensor, host: list[torch.Tensor]) -> None:
    torch.testing.assert_close(found.cpu(), wanted, **CLOSE)
    grad = torch.randn_like(wanted)
    found.backward(grad.to("tpu"))
    wanted.backward(grad)
    for a, b in zip(device, host, strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad, **CLOSE)


@pytest.mark.parametrize("is_causal", [False, True])
def test_flash(is_causal: bool) -> None:
    host = [t.requires_grad_() for t in tensors(4, 2, 2)]
    device = [t.detach().to("tpu").requires_grad_() for t in host]
    out, logsumexp, _, _, max_q, max_k, state, _, mask = aten._scaled_dot_product_flash_attention(
        *device, 0.0, is_causal
    )
    assert logsumexp.shape == (2, 4, 40) and (max_q, max_k) == (40, 40)
    assert state.shape == (2,) and state.dtype == torch.uint64 and mask.numel() == 0
    compare(out, device, F.scaled_dot_product_attention(*host, is_causal=is_causal, enable_gqa=True), host)


def test_efficient() -> None:
    host = [t.requires_grad_() for t in (*tensors(4, 4, 4), torch.randn(2, 4, 40, 40))]
    device = [t.detach().to("tpu").requires_grad_() for t in host]
    out, logsumexp, _, _ = aten._scaled_dot_product_efficient_attention(*device, True)
    scores = host[0] @ host[1].transpose(2, 3) / 8**0.5 + host[3]
    torch.testing.assert_close(logsumexp[..., :40].cpu(), scores.logsumexp(-1), **CLOSE)
    assert logsumexp.shape == (2, 4, 64)  # as on CUDA, where it is padded
    compare(out, device, F.scaled_dot_product_attention(*host[:3], attn_mask=host[3]), host)
    assert aten._scaled_dot_product_efficient_attention(*device, False)[1].shape == (2, 4, 0)


@pytest.mark.parametrize("name", ["flash", "efficient"])
def test_dropout_drops_the_same_in_the_backward_pass(name: str) -> None:
    query, key, value = (t.to("tpu").requires_grad_() for t in tensors(4, 4, 4))
    if name == "flash":
        out = aten._scaled_dot_product_flash_attention(query, key, value, 0.5)[0]
    else:
        out = aten._scaled_dot_product_efficient_attention(query, key, value, None, True, 0.5)[0]
    grad = torch.randn_like(out)
    out.backward(grad)
    # The result is linear in the values.
    torch.testing.assert_close((out * grad).sum().item(), (value * value.grad).sum().item(), rtol=1e-3, atol=1e-3)
    assert not torch.equal(out, aten._scaled_dot_product_flash_attention(query, key, value)[0])
