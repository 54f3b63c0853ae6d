"""The compile cache: what it did, what it holds, and making room.

Which tiers there are is said by environment variables, read at the first use of the device; docs/compile_cache.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torchtpu import _C


@dataclass(frozen=True)
class Stats:
    """Counts since this process began, or since a directory was made. Of `requests`, a program is a hit or compiled,
    except for one that is only looked for."""

    requests: int
    memory_hits: int
    host_hits: int
    shared_hits: int
    compilations: int
    bad_entries: int
    stored: int
    bytes_read: int
    bytes_written: int
    compile_seconds: float
    load_seconds: float
    saved_seconds: float

    def __str__(self) -> str:
        return "\n".join(
            f"{name.replace('_', ' '):16}{value:12.2f}"
            if isinstance(value, float)
            else f"{name.replace('_', ' '):16}{value:12}"
            for name, value in vars(self).items()
        )


class Entry(NamedTuple):
    """One compiled program in the host's directory."""

    key: str
    name: str
    size_bytes: int
    used_s: int
    """When it was last stored or loaded, to ten minutes; seconds since 1970."""
    compile_seconds: float
    fields: str
    """What the key is made of, a line each."""


class Pruned(NamedTuple):
    files: int
    size_bytes: int
    kept_bytes: int


def stats() -> Stats:
    """What the cache has done for this process."""
    return Stats(**_C._cache_stats())


def totals() -> Stats:
    """What it has done for all processes that used the host's directory; those that still run are not in it."""
    return Stats(**_C._cache_totals())


def directory() -> str | None:
    """The host tier's directory; None when there is none."""
    return _C._cache_directory() or None


def entries() -> list[Entry]:
    """What the host tier holds, the last used first."""
    return [Entry(*fields) for fields in _C._cache_entries()]


def prune(max_bytes: int | None = None) -> Pruned:
    """Removes what was used longest ago, until at most `max_bytes` (TORCHTPU_CACHE_MAX_BYTES) are left."""
    return Pruned(*_C._cache_prune(_C._cache_max_bytes() if max_bytes is None else max_bytes))


def clear() -> Pruned:
    """Removes all programs from the host tier. Those that this process has loaded stay."""
    return prune(0)


def wait() -> bool:
    """Blocks until everything compiled so far is stored; False if that takes longer than 20 s."""
    return _C._cache_wait()
