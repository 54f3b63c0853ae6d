"""How recorded ops are run.

- `strict` submits each op at once;
- `debug` also waits for it and checks indices;
- `fuse` gathers ops and runs many as one program.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

from torchtpu import _C

Mode = Literal["strict", "debug", "fuse"]

_lock = threading.Lock()
_overrides: dict[object, Mode] = {}  # of the context managers now entered, innermost last


def get_mode() -> Mode:
    """The mode that ops run in now."""
    return _C._mode()


def set_mode(mode: Mode) -> None:
    """Sets the mode of the process, until a context manager overrides it."""
    global _default
    with _lock:
        _check(mode)
        _default = mode
        if not _overrides:
            _C._set_mode(mode)


@contextmanager
def mode(mode: Mode) -> Iterator[None]:
    """Overrides the mode inside a `with` block or a decorated function.

    The override is the whole process's, since the backward pass runs on threads of autograd's own.
    """
    _check(mode)
    token = object()
    with _lock:
        _overrides[token] = mode
        _apply()
    try:
        yield
    finally:
        with _lock:
            del _overrides[token]
            _apply()


def set_fuse_options(*, wait: bool = False, idle_ms: int = 20) -> None:
    """Options of the `fuse` mode, for the whole process.

    Args:
        wait: Wait for a new fused program to be compiled. Without it (the default) the ops run one by one meanwhile, so
            that nothing stalls; which of the two an op meets then depends on the compiler's speed. With it every run of
            a script makes the same programs at the same places, and the same numbers to the last digit.
            `TORCHTPU_FUSE_WAIT=1` sets it from outside.
        idle_ms: Milliseconds without a new op after which a device that has nothing to do gets what was gathered so
            far. 0 is never. Ignored, as 0, with `wait`.
    """
    if idle_ms < 0:
        raise ValueError(f"idle_ms: expected a number of milliseconds from 0 on, found {idle_ms}")
    _C._set_fuse_options(bool(wait), 0 if wait else int(idle_ms))


def _apply() -> None:
    _C._set_mode(next(reversed(_overrides.values()), _default))


def _check(mode: str, name: str = "mode") -> None:
    if mode not in get_args(Mode):
        raise ValueError(f"{name}: expected 'strict', 'debug' or 'fuse', found {mode!r}")


def _from_environment() -> Mode:
    """TORCHTPU_MODE; TPU_LAUNCH_BLOCKING=1 is `debug` whatever it says."""
    if os.environ.get("TPU_LAUNCH_BLOCKING", "0") not in ("", "0"):
        return "debug"
    mode = os.environ.get("TORCHTPU_MODE", "strict")
    _check(mode, "TORCHTPU_MODE")
    return mode  # type: ignore[return-value]


_default = _from_environment()
_C._set_mode(_default)
if os.environ.get("TORCHTPU_FUSE_WAIT", "0") not in ("", "0"):
    set_fuse_options(wait=True)
