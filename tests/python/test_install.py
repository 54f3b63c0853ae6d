"""What `pip install` leaves behind. A checkout that is only built, not installed, has nothing to show here."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def installed() -> importlib.metadata.Distribution:
    site_packages = [path for path in sys.path if Path(path).resolve() != ROOT]
    found = [d for d in importlib.metadata.distributions(path=site_packages) if d.name == "torchtpu"]
    if not found:
        pytest.skip("torchtpu is not installed in this environment")
    return found[0]


def test_import_torch_is_enough(installed, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = "import torch; x = torch.ones(2, device='tpu'); print((x + x).tolist(), torch.tpu.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    values, _, file = done.stdout.strip().rpartition(" ")
    assert values == "[2.0, 2.0]"
    assert Path(file).is_relative_to(installed.locate_file(""))


def test_is_small(installed):
    size_bytes = sum(file.locate().stat().st_size for file in installed.files if file.locate().exists())
    assert size_bytes < 40e6  # unpacked: a wheel below 15 MB


def test_entry_point_is_the_only_tpu(installed):
    points = importlib.metadata.entry_points(group="torch.backends")
    assert [p.value for p in points if p.name == "tpu"] == ["torchtpu:_autoload"]
