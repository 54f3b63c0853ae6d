"""What the two processes hand to the one that started them, as JSON. A float comes back the same."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class First:
    device: str
    sentences: int
    largest_difference: float
    parameters: int
    seconds_to_training: float
    seconds_to_first_loss: float
    losses: list[float]  # of every step
    held_out: list[tuple[int, float]]  # a step and the loss after it
    bigram: float
    random_numbers: list[float]  # drawn right after the checkpoint


@dataclass(frozen=True)
class Second:
    losses: list[float]  # of the steps after the checkpoint
    random_numbers: list[float]


def write(path: Path, results: First | Second) -> None:
    path.write_text(json.dumps(asdict(results)))


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())
