"""Ranks killed at random moments of a training: the others name them, and the restarted job goes on from its state."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import train_until_killed as program

SIZE = 3
STEPS = 30
KILLS = int(os.environ.get("TORCHTPU_RANK_KILLS", "2"))
KILLS_EACH = 20  # of one launch


@pytest.mark.parametrize("seed", range((KILLS + KILLS_EACH - 1) // KILLS_EACH))
def test_killed_ranks_are_named_and_training_resumes(tmp_path: Path, seed: int) -> None:
    kills = min(KILLS_EACH, KILLS - seed * KILLS_EACH)
    launcher = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(SIZE),
        "--max-restarts",
        str(kills),
    ]
    arguments = [program.__file__, str(tmp_path), str(STEPS), str(kills), str(seed)]
    done = subprocess.run(
        [sys.executable, *launcher, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120 + 60 * kills,
    )
    assert done.returncode == 0, done.stderr
    for attempt in range(kills):
        errors = [path.read_text().split("\n", 1) for path in tmp_path.glob(f"error-{attempt}-*")]
        assert len(errors) == SIZE - 1, (attempt, errors)
        for victim, error in errors:
            assert f"rank {victim}" in error, error
    losses = torch.load(tmp_path / "checkpoint.pt", map_location="cpu")["losses"]
    assert len(losses) == STEPS
    torch.testing.assert_close(losses, program.losses_alone(STEPS), rtol=1e-3, atol=1e-5)
