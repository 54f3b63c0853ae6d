"""Bytes of the Python standard library's sources, split by file into train and held-out."""

import sysconfig
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

# Tests, installed packages, and tables that are no prose.
_SKIPPED = {"test", "tests", "idle_test", "site-packages", "dist-packages", "encodings", "pydoc_data"}


@dataclass(frozen=True)
class Corpus:
    train: np.ndarray
    held_out: np.ndarray
    train_files: int
    held_out_files: int

    def batch(self, step: int, windows: int, context: int, seed: int) -> torch.Tensor:
        """The training windows of a step: the same whichever process asks."""
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        starts = torch.randint(len(self.train) - context, (windows,), generator=generator)
        return _windows(self.train, starts.numpy(), context)

    def held_out_windows(self, windows: int, context: int) -> torch.Tensor:
        """Windows evenly spaced over the held-out bytes."""
        starts = np.linspace(0, len(self.held_out) - context, windows).astype(np.int64)
        return _windows(self.held_out, starts, context)


def load() -> Corpus:
    root = Path(sysconfig.get_path("stdlib"))
    files = sorted(p for p in root.rglob("*.py") if not _SKIPPED & set(p.relative_to(root).parts))
    held_out = [p for p in files if _is_held_out(p.relative_to(root))]
    train = [p for p in files if not _is_held_out(p.relative_to(root))]
    return Corpus(_join(train), _join(held_out), len(train), len(held_out))


def _is_held_out(path: Path) -> bool:
    """One file in twenty, by a hash of its name."""
    return zlib.crc32(path.as_posix().encode()) % 20 == 0


def _join(files: list[Path]) -> np.ndarray:
    return np.frombuffer(b"".join(p.read_bytes() for p in files), dtype=np.uint8)


def _windows(text: np.ndarray, starts: np.ndarray, context: int) -> torch.Tensor:
    return torch.from_numpy(text[starts[:, None] + np.arange(context)].astype(np.int64))
