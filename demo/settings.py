"""The sizes of a run."""

from dataclasses import dataclass
from pathlib import Path

OUT = Path("out")


@dataclass(frozen=True)
class Settings:
    steps: int = 400
    resumed_steps: int = 40  # that the second process repeats
    loss_interval: int = 10  # steps between two readings of the losses, after the first step's
    held_out_interval: int = 50
    held_out_windows: int = 128
    context: int = 128
    batch: int = 16
    warmup: int = 40
    learning_rate: float = 4e-3
    sample_bytes: int = 320
    seed: int = 20

    @property
    def checkpoint_step(self) -> int:
        return self.steps // 2


QUICK = Settings(
    steps=8,
    resumed_steps=3,
    loss_interval=2,
    held_out_interval=4,
    held_out_windows=8,
    context=32,
    batch=4,
    warmup=2,
    sample_bytes=4,
)


def choose(quick: bool) -> Settings:
    return QUICK if quick else Settings()
