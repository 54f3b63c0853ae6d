"""Attention on a `DTensor`.

PyTorch knows how CUDA's two operations are sharded, and how context parallelism passes their keys and values around. So
the device's own attention, when a DTensor is its argument, becomes one of those, which the device has as well.
"""

from typing import Any

import torch
from torch import Tensor

from torchtpu._on_import import on_import

aten = torch.ops.aten
Handled = tuple[Any, ...]


def _is_flash(query: Tensor, value: Tensor, attn_bias: Tensor | None) -> bool:
    return attn_bias is None and query.shape[-1] == value.shape[-1]


def _repeated(query: Tensor, shared: Tensor) -> Tensor:
    """Keys or values for each of the query's heads: DTensor takes those of the two operations to be as many."""
    return (
        shared.repeat_interleave(query.shape[1] // shared.shape[1], 1) if query.shape[1] != shared.shape[1] else shared
    )


def _summed(grad: Tensor, shared: Tensor) -> Tensor:
    if grad.shape[1] == shared.shape[1]:
        return grad
    batch, heads, *rest = grad.shape
    return grad.view(batch, shared.shape[1], heads // shared.shape[1], *rest).sum(2)


def _expanded(query: Tensor, key: Tensor, attn_bias: Tensor | None) -> Tensor | None:
    """As on CUDA, where the bias is sharded like the scores."""
    return None if attn_bias is None else attn_bias.expand(*query.shape[:-1], key.shape[-2])


def _collapsed(grad: Tensor, attn_bias: Tensor) -> Tensor:
    """The gradient of what was expanded; sum_to_size is not for DTensors."""
    leading = grad.ndim - attn_bias.ndim
    if leading:
        grad = grad.sum(list(range(leading)))
    dims = [dim for dim, size in enumerate(attn_bias.shape) if size == 1 != grad.shape[dim]]
    return grad.sum(dims, keepdim=True) if dims else grad


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> Handled:
    key, value = _repeated(query, key), _repeated(query, value)
    if _is_flash(query, value, attn_bias):
        return aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, scale=scale)
    out, logsumexp, seed, offset = aten._scaled_dot_product_efficient_attention(
        query, key, value, _expanded(query, key, attn_bias), True, dropout_p, is_causal, scale=scale
    )
    return out, logsumexp, None, None, query.shape[-2], key.shape[-2], seed, offset, None


def _attention_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    grad_input_mask: list[bool],
    out: Tensor,
    logsumexp: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Tensor,
    philox_offset: Tensor,
    *,
    scale: float | None = None,
) -> Handled:
    keys, values = _repeated(query, key), _repeated(query, value)
    grad_bias = None
    if _is_flash(query, value, attn_bias):
        lengths, drawn = (cum_seq_q, cum_seq_k, max_q, max_k), (philox_seed, philox_offset)
        grad_query, grad_key, grad_value = aten._scaled_dot_product_flash_attention_backward(
            grad_out, query, keys, values, out, logsumexp, *lengths, dropout_p, is_causal, *drawn, scale=scale
        )
    else:
        drawn = (philox_seed, philox_offset, dropout_p, grad_input_mask)
        grad_query, grad_key, grad_value, grad_bias = aten._scaled_dot_product_efficient_attention_backward(
            *(grad_out, query, keys, values, _expanded(query, key, attn_bias), out, logsumexp, *drawn, is_causal),
            scale=scale,
        )
    if grad_input_mask[3] and attn_bias is not None:
        grad_bias = _collapsed(grad_bias, attn_bias)
    return grad_query, _summed(grad_key, key), _summed(grad_value, value), grad_bias


def _register() -> None:
    from torch.distributed.tensor import DTensor

    def handle(function: Any) -> Any:
        return lambda op, args, kwargs: function(*args, **kwargs)

    DTensor._op_dispatcher._custom_op_handlers.update(
        {
            aten._scaled_dot_product_fused_attention_overrideable.default: handle(_attention),
            aten._scaled_dot_product_fused_attention_overrideable_backward.default: handle(_attention_backward),
        }
    )


def register() -> None:
    on_import("torch.distributed.tensor", _register)
