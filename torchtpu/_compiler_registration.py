"""What `torch.compile` knows of the device, through the interfaces that PyTorch has for it.

Importing Dynamo takes seconds, so each part is registered when PyTorch first imports what it belongs to.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from torchtpu import tpu
from torchtpu._on_import import on_import

if TYPE_CHECKING:
    from torch.fx import GraphModule


def default_backend(graph: "GraphModule", example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """The backend of `torch.compile` where none is named."""
    from torchtpu._dynamo import default

    return default(graph, example_inputs, **kwargs)


def _register_default_backend() -> None:
    from torch._dynamo.backends import registry

    if registry.get_default_backend() == "inductor":
        registry.set_default_backend(default_backend)


def _register_interface() -> None:
    from torch._dynamo import device_interface

    class Interface(device_interface.DeviceInterface):
        device = tpu.device
        Event = tpu.Event
        Stream = tpu.Stream

        class Worker:
            set_device = staticmethod(tpu.set_device)
            current_device = staticmethod(tpu.current_device)
            get_device_properties = staticmethod(tpu.get_device_properties)

        current_device = staticmethod(tpu.current_device)
        set_device = staticmethod(tpu.set_device)
        exchange_device = staticmethod(tpu._exchange_device)
        maybe_exchange_device = staticmethod(tpu._maybe_exchange_device)
        device_count = staticmethod(tpu.device_count)
        is_available = staticmethod(tpu.is_available)
        stream = staticmethod(tpu.stream)
        current_stream = staticmethod(tpu.current_stream)
        set_stream = staticmethod(tpu.set_stream)
        _set_stream_by_id = staticmethod(tpu._set_stream_by_id)
        synchronize = staticmethod(tpu.synchronize)
        get_compute_capability = staticmethod(tpu.get_device_capability)
        memory_allocated = staticmethod(tpu.memory_allocated)

        @staticmethod
        def get_raw_stream(device_idx: int) -> int:
            return tpu.current_stream(device_idx).stream_id

        @staticmethod
        def is_bf16_supported(including_emulation: bool = False) -> bool:
            return tpu.is_bf16_supported(including_emulation)

        @classmethod
        def is_dtype_supported(cls, dtype: torch.dtype, including_emulation: bool = False) -> bool:
            return True

    device_interface.get_interface_for_device("cpu")  # PyTorch's own interfaces first: it would replace ours
    for name in ("tpu", *(f"tpu:{index}" for index in range(tpu.device_count()))):
        device_interface.register_interface_for_device(name, Interface)


def _register_inductor() -> None:
    from torch._inductor.codegen import common

    class NoCode:
        supports_caching = False

        def __init__(self, *arguments: Any) -> None:
            raise NotImplementedError(
                "torch.compile: inductor generates no code for tpu. Leave the backend out, or say backend='tpu'."
            )

        create = classmethod(__init__)

    common.register_backend_for_device("tpu", NoCode, NoCode)


def _register_flex_attention() -> None:
    """Dynamo traces this check in place of PyTorch's, which has a list of devices."""
    from torch.nn.attention import flex_attention

    @torch.compiler.substitute_in_graph(flex_attention._validate_device)
    def _validate_device(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        on = query.device.type
        if on in ("cpu", "mps") and (query.requires_grad or key.requires_grad or value.requires_grad):
            raise NotImplementedError(
                f"FlexAttention does not support backward on {on.upper()}. Please set the input requires_grad to False "
                "or use another device."
            )
        if on not in ("cuda", "cpu", "xpu", "hpu", "mps", "tpu"):
            raise ValueError(
                "FlexAttention is only supported on CUDA, CPU, HPU, or MPS devices. "
                f"Found input tensors on {on} device."
            )


def register() -> None:
    on_import("torch._dynamo.backends.registry", _register_default_backend)
    on_import("torch._dynamo.device_interface", _register_interface)
    on_import("torch._inductor.codegen.common", _register_inductor)
    on_import("torch.nn.attention.flex_attention", _register_flex_attention)
