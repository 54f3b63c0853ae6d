"""`eager_mode`, to be read and assigned, and `set_eager_mode`, a context manager."""

import sys
from contextlib import AbstractContextManager
from enum import Enum
from types import ModuleType

import torchtpu


class EagerMode(Enum):
    """The modes by their names there; the values are torchtpu's."""

    DEFER_NEVER = "strict"
    DEFER_NEVER_AND_LAUNCH_BLOCKING = "debug"
    DEFER_AND_FUSE = "fuse"


def set_eager_mode(mode: EagerMode) -> AbstractContextManager[None]:
    """Overrides the mode inside a `with` block."""
    return torchtpu.mode(mode.value)


class _ExecutionMode(ModuleType):
    @property
    def eager_mode(self) -> EagerMode:
        return EagerMode(torchtpu.get_mode())

    @eager_mode.setter
    def eager_mode(self, mode: EagerMode) -> None:
        torchtpu.set_mode(mode.value)


sys.modules[__name__].__class__ = _ExecutionMode
