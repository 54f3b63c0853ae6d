"""Small operations and training steps: TorchTPU in strict and fuse mode beside its peers, interleaved, as ratios.

    python -m benchmarks.eager [--rounds 3] [--only add,mlp-small] [--peer DIR] [--xla DIR]

Peers: PyTorch on the CPU; with ``--peer``, Google's package in the environment DIR that ``peer/setup.sh`` of the
instruments has made, in its two modes of these names; with ``--xla``, torch_xla in the environment DIR, in its eager
and its lazy mode. Each runs ``benchmarks/steps.py`` in a process of its own, in turn, ``--rounds`` times; the figures
are medians. Fused programs are waited for, so that a run of a second measures them and not the compiler; a first
process, not counted, fills the cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from benchmarks.peers import environment

STEPS = Path(__file__).with_name("steps.py")
Figures = dict[tuple[str, str], list[float]]


def run(python: str, backend: str, mode: str, only: str) -> list[dict]:
    """One process of the workload file; its JSON lines."""
    env = dict(os.environ) if backend == "torchtpu" else environment()
    command = [python, str(STEPS), "--backend", backend, "--mode", mode, "--only", only, "--rounds", "5"]
    out = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def table(host: Figures, total: Figures) -> None:
    """Times in microseconds a step, until the call returns and until the result is there; then ratios of the latter."""
    works = list(dict.fromkeys(work for _, work in total))
    names = list(dict.fromkeys(name for name, _ in total))
    pairs = [("fuse", "strict")]
    pairs += [("strict", name) for name in ("cpu", "peer strict", "xla eager") if name in names]
    pairs += [("fuse", name) for name in ("cpu", "peer fuse", "xla lazy") if name in names]
    print(f"{'':20}" + "".join(f"{name:>22}" for name in names) + "".join(f"{a + '/' + b:>20}" for a, b in pairs))
    for work in works:
        median = {name: statistics.median(total[name, work]) for name in names}
        row = f"{work:20}"
        for name in names:
            row += f"{statistics.median(host[name, work]):11.1f}{median[name]:11.1f}"
        print(row + "".join(f"{median[a] / median[b]:20.2f}" for a, b in pairs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="add,mm,chain,mlp-small,transformer-small,mlp,transformer,resnet18")
    parser.add_argument("--peer", help="a virtual environment with Google's package")
    parser.add_argument("--xla", help="a virtual environment with torch_xla")
    args = parser.parse_args()
    backends = [
        ("strict", sys.executable, "torchtpu", "strict"),
        ("fuse", sys.executable, "torchtpu", "fuse"),
        ("cpu", sys.executable, "cpu", "eager"),
    ]
    if args.peer:
        python = str(Path(args.peer) / "bin" / "python")
        backends += [("peer strict", python, "peer", "strict"), ("peer fuse", python, "peer", "fuse")]
    if args.xla:
        python = str(Path(args.xla) / "bin" / "python")
        backends += [("xla eager", python, "xla", "eager"), ("xla lazy", python, "xla", "lazy")]
    host: Figures = defaultdict(list)
    total: Figures = defaultdict(list)
    os.environ["TORCHTPU_FUSE_WAIT"] = "1"
    run(sys.executable, "torchtpu", "fuse", args.only)
    for _ in range(args.rounds):
        for name, python, backend, mode in backends:
            for line in run(python, backend, mode, args.only):
                host[name, line["work"]].append(line["host_us"])
                total[name, line["work"]].append(line["total_us"])
    table(host, total)


if __name__ == "__main__":
    main()
