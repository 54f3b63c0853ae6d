"""Device memory.

`allocated` counts live storages in program order, as a GPU's caching allocator would; `reserved` counts what the plugin
really holds: less where a storage was never written or shares its contents, more where queued work still needs an old
one.
"""

from typing import Any

from torch.types import Device

from torchtpu import _C
from torchtpu.tpu._index import device_index


def memory_stats(device: Device = None) -> dict[str, int]:
    """The figures of a device, by the names of `torch.cuda.memory_stats`; empty before the first use.

    `num_ooms` is the process's, not the device's.
    """
    return _C._memory_stats(device_index(device)) if _C._is_initialized() else {}


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """`memory_stats`, with a dict for each part of a name."""
    nested: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *outer, last = name.split(".")
        inner = nested
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def memory_allocated(device: Device = None) -> int:
    """Bytes of live storages."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Device = None) -> int:
    """The most that `memory_allocated` has been since the start or `reset_peak_memory_stats`."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Device = None) -> int:
    """Bytes that the plugin holds for this process."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Device = None) -> int:
    """The most that `memory_reserved` has been since the start or `reset_peak_memory_stats`."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Peaks count from now on."""
    if _C._is_initialized():
        _C._reset_peak_memory_stats(device_index(device))


def reset_max_memory_allocated(device: Device = None) -> None:
    """The same as `reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Totals count from now on."""
    if _C._is_initialized():
        _C._reset_accumulated_memory_stats(device_index(device))


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Free and total bytes: what this process may still allocate, and what the device has."""
    return _C._memory_info(device_index(device))


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Lets this process allocate at most a fraction of the device's memory; more raises `torch.OutOfMemoryError`."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"set_per_process_memory_fraction: expected a number from 0 to 1, found {fraction}")
    index = device_index(device)
    _C._set_memory_limit(index, int(fraction * mem_get_info(index)[1]))


def get_per_process_memory_fraction(device: Device = None) -> float:
    """What `set_per_process_memory_fraction` has set."""
    index = device_index(device)
    return _C._memory_limit(index) / mem_get_info(index)[1]


def empty_cache() -> None:
    """Has nothing to release: a storage's memory goes back to the plugin with its last reference."""


def get_allocator_backend() -> str:
    """Who allocates: the PJRT plugin."""
    return "pjrt"


def host_memory_stats() -> dict[str, int]:
    """The figures of pinned host memory, by the names of `torch.cuda.host_memory_stats`."""
    return _C._host_memory_stats()


def reset_peak_host_memory_stats() -> None:
    """Peaks of pinned memory count from now on."""
    _C._reset_peak_host_memory_stats()


def reset_accumulated_host_memory_stats() -> None:
    """Totals of pinned memory count from now on."""
    _C._reset_accumulated_host_memory_stats()


def empty_host_cache() -> None:
    """Releases pinned memory that was freed and that no copy still reads."""
    _C._empty_host_cache()


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """The figures as a table; abbreviated, without the totals."""
    index = device_index(device)
    stats = memory_stats(index)
    columns = ["current", "peak"] if abbreviated else ["current", "peak", "allocated", "freed"]
    lines = [f"PyTorch TPU memory summary, device {index}; out-of-memory errors: {stats.get('num_ooms', 0)}"]
    lines.append(f"{'':<20}" + "".join(f"{column:>14}" for column in columns))
    for title, name in (("allocated memory", "allocated_bytes"), ("reserved memory", "reserved_bytes")):
        values = (stats.get(f"{name}.all.{column}") for column in columns)
        lines.append(f"{title:<20}" + "".join(f"{_format_bytes(value):>14}" for value in values))
    return "\n".join(lines) + "\n"


def _format_bytes(size_bytes: int | None) -> str:
    if size_bytes is None:
        return "-"
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if size < 10240:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.0f} GiB"
