"""Mixed precision: `torch.amp` with the device filled in. The default type is bfloat16."""

from functools import partial

import torch

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "get_amp_supported_dtype"]

custom_fwd = partial(torch.amp.custom_fwd, device_type="tpu")
custom_bwd = partial(torch.amp.custom_bwd, device_type="tpu")


class autocast(torch.amp.autocast):
    """`torch.amp.autocast("tpu", ...)`."""

    def __init__(
        self, enabled: bool = True, dtype: torch.dtype = torch.bfloat16, cache_enabled: bool | None = None
    ) -> None:
        super().__init__("tpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """`torch.amp.GradScaler("tpu", ...)`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("tpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The types that autocast may compute in."""
    return [torch.bfloat16, torch.float16]
