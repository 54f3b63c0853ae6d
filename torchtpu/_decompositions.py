"""PyTorch's decomposition table, and what it leaves out, for ops that have no lowering. Imported on the first miss."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.nn.functional import gelu, layer_norm, linear


def _overload(name: str) -> torch._ops.OpOverload | None:
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return getattr(packet, overload or "default", None)


def _cholesky(x: torch.Tensor, upper: bool = False) -> torch.Tensor:
    return torch.linalg.cholesky(x, upper=upper)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """`nn.MultiheadAttention` in evaluation. `mask` is true where nothing is looked at; its type 0: [T, T], 1: [B, T],
    2: [B, heads, T, T]."""
    parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    q, k, v = (linear(x, w, b).unflatten(-1, (num_head, -1)).transpose(1, 2) for x, w, b in parts)
    scores = (q / q.shape[-1] ** 0.5) @ k.transpose(-1, -2)
    if mask is not None:
        mask = mask.to(torch.bool)
        scores = scores.masked_fill(mask[:, None, None, :] if mask_type == 1 else mask, float("-inf"))
    weights = scores.softmax(-1)
    result = linear((weights @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return result, None
    return result, weights.mean(1) if average_attn_weights else weights


def _encoder_layer(
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    """`nn.TransformerEncoderLayer` in evaluation."""

    def attend(x: torch.Tensor) -> torch.Tensor:
        projections = qkv_weight, qkv_bias, proj_weight, proj_bias
        return _attention(x, x, x, embed_dim, num_heads, *projections, mask, False, True, mask_type)[0]

    def feed(x: torch.Tensor) -> torch.Tensor:
        x = linear(x, ffn_weight_1, ffn_bias_1)
        return linear(gelu(x) if use_gelu else x.relu(), ffn_weight_2, ffn_bias_2)

    def norm1(x: torch.Tensor) -> torch.Tensor:
        return layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def norm2(x: torch.Tensor) -> torch.Tensor:
        return layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attend(norm1(src))
        return x + feed(norm2(x))
    x = norm1(src + attend(src))
    return norm2(x + feed(x))


_FURTHER: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.cholesky.default: _cholesky,
    torch.ops.aten._native_multi_head_attention.default: _attention,
    torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer,
    torch.ops.aten._efficientzerotensor.default: torch.ops.aten.zeros.default,
}


@functools.cache
def find(name: str) -> Callable[..., Any] | None:
    """The Python function that expands ``name`` ("aten::op.overload") into other ops, or None."""
    op = _overload(name)
    return None if op is None else decomposition_table.get(op) or _FURTHER.get(op)
