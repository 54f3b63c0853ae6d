"""Names of Google's package `torch_tpu`, for programs written for it. Everything is torchtpu's."""

from torch_tpu import api

__all__ = ["api"]
