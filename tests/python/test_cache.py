"""The compile cache between processes: nobody compiles twice, and nothing that goes wrong with it is an error."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from torchtpu import _C, cache

# Some training, deterministic; then what the cache did. `total` is the result that must never differ.
PROGRAM = """
import json, torch, torchtpu
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)).to("tpu")
x = torch.arange(16, dtype=torch.float32).reshape(2, 8).to("tpu") / 16
for _ in range(2):
    loss = model(x).pow(2).sum()
    loss.backward()
    with torch.no_grad():  # an optimizer's import takes longer than all of this
        for p in model.parameters():
            p -= 0.1 * p.grad
            p.grad = None
total = loss.item()
"""
REPORT = "torchtpu.cache.wait(); print(json.dumps({**vars(torchtpu.cache.stats()), 'total': total}))"


def start(code: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "TORCHTPU_MODE": "strict", **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> dict[str, float]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    # The plugin says something there, too.
    notices = "".join(line + "\n" for line in err.splitlines() if "compile cache" in line)
    return json.loads(out.splitlines()[-1]) | {"notices": notices}


def run(directory: Path | str, code: str = PROGRAM + REPORT, **environment: str) -> dict[str, float]:
    return finish(start(code, TORCHTPU_CACHE_DIR=str(directory), **environment))


def entries(directory: Path) -> list[Path]:
    return sorted(p for p in directory.glob("??/*") if len(p.name) == 30)


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> dict[str, float]:
    """The program's first run, and the directory that it filled."""
    directory = tmp_path_factory.mktemp("first") / "cache"
    return run(directory) | {"directory": directory}


def test_the_second_process_compiles_nothing(first):
    assert first["compilations"] == first["stored"] == len(entries(first["directory"])) > 10
    second = run(first["directory"])
    assert second["compilations"] == second["stored"] == 0
    assert second["host_hits"] == first["compilations"]
    assert second["total"] == first["total"]
    assert second["saved_seconds"] > 0
    assert second["bytes_read"] == first["bytes_written"]
    assert not second["notices"]


def test_requests_are_hits_or_compilations(first):
    hits = first["memory_hits"] + first["host_hits"] + first["shared_hits"]
    assert first["requests"] == hits + first["compilations"]


def test_a_repeated_call_asks_for_nothing(device):
    x = torch.ones(3, 5, 7, device=device)
    x.relu().cpu()
    assert cache.wait()
    before = cache.stats()
    x.relu().cpu()
    assert cache.wait()
    assert cache.stats() == before
    assert before.compilations == _C._compile_count()


def test_eight_processes_compile_each_program_once(tmp_path, first):
    directory = tmp_path / "cache"
    processes = [start(PROGRAM + REPORT, TORCHTPU_CACHE_DIR=str(directory)) for _ in range(8)]
    results = [finish(p) for p in processes]
    assert sum(r["compilations"] for r in results) == first["compilations"] == len(entries(directory))
    assert {r["total"] for r in results} == {first["total"]}
    assert all(r["requests"] == first["requests"] for r in results)


def test_killed_processes_leave_nothing_wrong(tmp_path, first):
    """Whole processes, killed while they compile and store; the store alone is killed 500 times in tests/cc."""
    directory = tmp_path / "cache"
    chance = random.Random(7)
    for _ in range(int(os.environ.get("TORCHTPU_CACHE_KILLS", "4"))):
        victim = start(
            "import os, torch, torchtpu\nos.write(1, b'x')\n" + PROGRAM + "os.write(1, b'y')",
            TORCHTPU_CACHE_DIR=str(directory),
        )
        assert victim.stdout is not None
        assert os.read(victim.stdout.fileno(), 1) == b"x"
        wanted = chance.randrange(1, int(first["compilations"]))
        while len(entries(directory)) < wanted and victim.poll() is None:
            time.sleep(0.001)
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
    after = run(directory)
    assert after["total"] == first["total"]
    assert after["bad_entries"] == 0
    assert run(directory)["compilations"] == 0


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "foreign", "directory"])
def test_damaged_entries_are_compiled_again(tmp_path, first, damage):
    directory = tmp_path / "cache"
    run(directory)
    for file in entries(directory):
        data = bytearray(file.read_bytes())
        if damage == "empty":
            data = bytearray()
        elif damage == "cut":
            del data[len(data) * 2 // 3 :]
        elif damage == "flipped":
            data[len(data) // 2] ^= 1
        elif damage == "foreign":
            data[8] += 1  # the format's version
        file.unlink()
        if damage == "directory":
            file.mkdir()
        else:
            file.write_bytes(data)
            file.chmod(0o600)
    result = run(directory)
    assert result["total"] == first["total"]
    assert result["compilations"] == first["compilations"]
    if damage != "directory":
        assert result["bad_entries"] == first["compilations"]
        assert run(directory)["compilations"] == 0
    # One line, however many entries.
    assert result["notices"].count("compile cache") <= 2


def test_a_place_that_cannot_be_used_is_said_once(tmp_path, first):
    (tmp_path / "file").write_text("x")
    result = run(tmp_path / "file" / "cache")
    assert result["total"] == first["total"]
    assert result["compilations"] == first["compilations"]
    assert result["notices"].count("TORCHTPU_CACHE_DIR names another") == 1


def test_a_directory_that_others_can_write_is_not_used(tmp_path, first):
    directory = tmp_path / "cache"
    directory.mkdir()
    directory.chmod(0o777)
    result = run(directory)
    assert result["total"] == first["total"]
    assert result["stored"] == 0
    assert "only this user" in result["notices"]


def test_it_can_be_turned_off(tmp_path, first):
    result = run(tmp_path / "cache", TORCHTPU_CACHE="0")
    assert result["compilations"] == first["compilations"]
    assert not (tmp_path / "cache").exists()
    assert not result["notices"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small disk")
def test_a_full_disk(tmp_path, first):
    disk = tmp_path / "disk"
    disk.mkdir()
    options = f"size={int(first['bytes_written']) // 2},mode=0700"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("may not mount")
    try:
        result = run(disk)
        assert result["total"] == first["total"]
        assert result["compilations"] == first["compilations"]
        assert result["stored"] < first["stored"]
        assert result["notices"].count("No space left") == 1
        again = run(disk)
        assert again["host_hits"] == result["stored"]
        assert again["bad_entries"] == 0
        assert subprocess.run(["mount", "-o", "remount,ro", disk], capture_output=True).returncode == 0
        read_only = run(disk)
        assert read_only["total"] == first["total"]
        assert read_only["host_hits"] >= result["stored"]
        assert read_only["stored"] == 0
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")
def test_two_users_of_one_directory(tmp_path, first):
    """The second may not read the first's directory, computes the same, and leaves it alone."""
    directory = tmp_path / "cache"
    run(directory)
    for folder in [tmp_path, *tmp_path.parents]:
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    before = {p: p.stat().st_mtime_ns for p in entries(directory)}
    # Its files are opened before: the second user need not be able to read where the first has installed the package.
    change = "import os\nimport torch._dynamo\ntorch.tpu.init()\nos.setgid(65534), os.setuid(65534)\n"
    result = run(directory, change + PROGRAM + REPORT)
    assert result["total"] == first["total"]
    assert result["compilations"] == first["compilations"]
    assert "compile cache" in result["notices"]
    assert {p: p.stat().st_mtime_ns for p in entries(directory)} == before


def test_a_compiler_that_hangs_holds_nobody_up_for_ever(tmp_path, first):
    directory = tmp_path / "cache"
    directory.mkdir(mode=0o700)
    holder = start(
        "import os, sys, fcntl, struct\n"
        f"f = os.open({str(directory / 'locks')!r}, os.O_RDWR | os.O_CREAT, 0o600)\n"
        "fcntl.fcntl(f, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0))\n"  # F_OFD_SETLK, every byte
        "print('held', flush=True); sys.stdin.read()"
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    try:
        result = run(directory, TORCHTPU_CACHE_WAIT_SECONDS="0.01")
        assert result["total"] == first["total"]
        assert result["compilations"] == first["compilations"]
        assert result["notices"].count("is compiled here too") == 1
    finally:
        holder.kill()
        holder.communicate()


def test_files_of_the_future_do_no_harm(tmp_path, first):
    directory = tmp_path / "cache"
    run(directory)
    for file in [*entries(directory), directory / "pruned"]:
        os.utime(file, (time.time() + 1e6, time.time() + 1e6))
    result = run(directory)
    assert result["compilations"] == 0
    assert all(p.stat().st_mtime < time.time() + 1e5 for p in entries(directory))


def test_an_allowance_is_kept(tmp_path, first):
    directory = tmp_path / "cache"
    allowed = int(first["bytes_written"] // 2)
    for _ in range(3):
        assert run(directory, TORCHTPU_CACHE_MAX_BYTES=str(allowed))["total"] == first["total"]
    assert sum(p.stat().st_size for p in entries(directory)) <= allowed * 17 // 16


def test_ending_at_once_loses_nothing(tmp_path, first):
    """Work is submitted, nothing is awaited, the interpreter goes: what it began is stored."""
    directory = tmp_path / "cache"
    code = "import torch\nx = torch.ones(4, 4).to('tpu')\ny = (x @ x).tanh()"
    done = start(code, TORCHTPU_CACHE_DIR=str(directory))
    _, err = done.communicate(timeout=300)
    assert done.returncode == 0, err
    assert "compile cache" not in err
    kept = entries(directory)
    assert kept
    code += "\ny.cpu(); import json, torchtpu; total = 0; " + REPORT
    assert run(directory, code)["compilations"] == 0


def test_a_forked_child_ends_at_once(tmp_path, first):
    """It has the counts of its parent and none of its threads: it stores and adds nothing."""
    directory = tmp_path / "cache"
    code = PROGRAM + "import os, sys\npid = os.fork()\nif pid == 0: sys.exit(5)\n"
    code += "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5\n" + REPORT
    assert run(directory, code)["compilations"] == first["compilations"]
    totals = dict(line.split() for line in (directory / "totals").read_text().splitlines() if line)
    assert int(totals["requests"]) == first["requests"]


def test_other_flags_make_another_program(first):
    """XLA's flags change what a program compiles to, so they are in the key."""
    result = run(first["directory"], XLA_FLAGS="--xla_cpu_enable_fast_math=false")
    assert result["host_hits"] == 0
    assert result["compilations"] == first["compilations"]
