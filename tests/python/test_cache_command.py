"""`python -m torchtpu cache`, and torchtpu.cache in a process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from torchtpu import cache

SCRIPT = "import sys, torch\nprint(torch.ones(int(sys.argv[1])).to('tpu').tanh().sum().item())\n"


def command(directory: Path, *arguments: str, status: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "torchtpu", *arguments],
        env={**os.environ, "TORCHTPU_CACHE_DIR": str(directory)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def warm(tmp_path) -> Path:
    (tmp_path / "script.py").write_text(SCRIPT)
    out = command(tmp_path / "cache", "cache", "warm", str(tmp_path / "script.py"), "3")
    assert "programs added" in out
    assert "warm: 0 programs" not in out
    return tmp_path / "cache"


def test_warm_leaves_nothing_to_compile(warm):
    assert "warm: 0 programs added" in command(warm, "cache", "warm", str(warm.parent / "script.py"), "3")


def test_warm_ends_as_the_program_does(tmp_path):
    (tmp_path / "script.py").write_text("raise SystemExit(7)")
    command(tmp_path / "cache", "cache", "warm", str(tmp_path / "script.py"), status=7)
    assert "expected a program" in command(tmp_path / "cache", "cache", "warm", status=2)


def test_ls_shows_programs_and_what_their_keys_are_made_of(warm):
    lines = command(warm, "cache", "ls").splitlines()
    assert any("tanh" in line for line in lines)
    assert len(lines) == len(list(warm.glob("??/*")))
    assert "platform=cpu" in command(warm, "cache", "ls", "--long")


def test_stats_add_up_over_processes(warm):
    out = command(warm, "cache", "stats")
    assert str(warm) in out
    first = _number(out, "host hits")
    command(warm, "cache", "warm", str(warm.parent / "script.py"), "3")
    assert _number(command(warm, "cache", "stats"), "host hits") > first


def _number(out: str, name: str) -> int:
    return next(int(line.removeprefix(name)) for line in out.splitlines() if line.startswith(name))


def test_prune_and_clear(warm):
    assert "removed 0 programs" in command(warm, "cache", "prune")
    out = command(warm, "cache", "prune", "--max-bytes", "1K")
    assert "removed 0" not in out
    command(warm, "cache", "warm", str(warm.parent / "script.py"), "3")
    command(warm, "cache", "clear")
    assert not list(warm.glob("??/*"))
    assert "expected a size" in command(warm, "cache", "prune", "--max-bytes", "much", status=2)


def test_commands_are_listed(tmp_path):
    assert "cache" in command(tmp_path, "--help")
    assert "expected a command, found 'nonsense'" in command(tmp_path, "nonsense", status=2)
    (tmp_path / "file").write_text("x")
    assert "No host tier" in command(tmp_path / "file" / "x", "cache", "ls", status=1)


def test_in_this_process(device):
    before = cache.stats()
    torch.full((2, 3, 5, 7), 2.0, device=device).atan2(torch.tensor(3.0, device=device)).cpu()
    assert cache.wait()
    after = cache.stats()
    assert after.requests > before.requests
    assert str(after).splitlines()[0].split() == ["requests", str(after.requests)]
    assert cache.directory() == os.environ["TORCHTPU_CACHE_DIR"]
    assert any("atan2" in entry.name for entry in cache.entries())
    assert cache.totals().requests >= after.requests
    assert cache.prune().files == 0
