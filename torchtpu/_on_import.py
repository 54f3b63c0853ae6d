"""Code that runs when a module is first imported: what belongs to parts of PyTorch that are slow to import."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, then: Callable[[], None]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._then()


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self) -> None:
        self.waiting: dict[str, Callable[[], None]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.waiting:
            return None
        then = self.waiting.pop(fullname)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, then)
        return spec


_finder = _Finder()


def on_import(module: str, then: Callable[[], None]) -> None:
    """Calls `then` once `module` has been imported; at once if it has."""
    if module in sys.modules:
        then()
        return
    _finder.waiting[module] = then
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
