"""A shared tier of the compile cache behind an fsspec URL. C++ checks what is read: nothing here needs to."""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

# Less than the process waits for at its end; a store that answers slower is slower than compiling.
TIMEOUT_SECONDS = 10.0


class SharedStore:
    """Entries as files below a URL, `ab/cdef...` by the digits of the key. A store that fails is not asked again."""

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem = filesystem
        self._root = root
        self._lost = False

    def read(self, name: str) -> bytes | None:
        return self._bounded(lambda: self._read(self._path(name)))

    def write(self, name: str, data: bytes) -> bool:
        """False when the store has failed before."""
        return self._bounded(lambda: self._write(self._path(name), data)) is not None

    def remove(self, name: str) -> None:
        self._bounded(lambda: self._filesystem.rm_file(self._path(name)))

    def _path(self, name: str) -> str:
        return posixpath.join(self._root, name[:2], name[2:])

    def _read(self, path: str) -> bytes | None:
        try:
            return self._filesystem.cat_file(path)
        except FileNotFoundError:
            return None

    def _write(self, path: str, data: bytes) -> bool:
        # Where folders are real, they have to be there; object stores have none. A reader that meets a file half
        # written finds its checksum wrong.
        if not hasattr(self._filesystem, "_pipe_file"):
            self._filesystem.makedirs(posixpath.dirname(path), exist_ok=True)
        self._filesystem.pipe_file(path, data)
        return True

    def _bounded(self, work: Callable[[], T]) -> T | None:
        """Runs the work in a thread of its own, which is left behind when it takes too long."""
        if self._lost:
            return None
        results: list[T] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                results.append(work())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run, name="torchtpu-shared-cache", daemon=True)
        thread.start()
        thread.join(TIMEOUT_SECONDS)
        if results:
            return results[0]
        self._lost = True
        if errors:
            raise errors[0]
        raise TimeoutError(f"{self._root}: expected an answer within {TIMEOUT_SECONDS:.0f} s, found none")


def open_store(url: str) -> SharedStore:
    """The store at an fsspec URL; the file system takes its settings (keys, endpoint) from fsspec's configuration."""
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(f"TORCHTPU_CACHE_URL={url}: expected the package fsspec. pip install fsspec") from error
    filesystem, root = fsspec.core.url_to_fs(url)
    return SharedStore(filesystem, root)
