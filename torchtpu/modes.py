"""How recorded ops are run: `strict` submits each op at once; `debug` also waits for it and checks indices."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from torchtpu import _C

Mode = Literal["strict", "debug"]

_lock = threading.Lock()
_overrides: dict[object, Mode] = {}  # of the context managers now entered, innermost last


def get_mode() -> Mode:
    """The mode that ops run in now."""
    return _C._mode()


def set_mode(mode: Mode) -> None:
    """Sets the mode of the process, until a context manager overrides it."""
    global _default
    with _lock:
        if not _overrides:
            _C._set_mode(mode)
        else:
            _check(mode)
        _default = mode


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


def _apply() -> None:
    _C._set_mode(next(reversed(_overrides.values()), _default))


def _check(mode: str) -> None:
    if mode not in ("strict", "debug"):
        raise ValueError(f"mode: expected 'strict' or 'debug', found {mode!r}")


def _from_environment() -> Mode:
    """TORCHTPU_MODE; TPU_LAUNCH_BLOCKING=1 is `debug` whatever it says."""
    if os.environ.get("TPU_LAUNCH_BLOCKING", "0") not in ("", "0"):
        return "debug"
    mode = os.environ.get("TORCHTPU_MODE", "strict")
    if mode not in ("strict", "debug"):
        raise ValueError(f"TORCHTPU_MODE: expected 'strict' or 'debug', found {mode!r}")
    return mode  # type: ignore[return-value]


_default = _from_environment()
_C._set_mode(_default)
