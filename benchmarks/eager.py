"""Small operations and training steps: TorchTPU in strict mode beside its peers, interleaved, as ratios.

    python -m benchmarks.eager [--rounds 3] [--only add,mlp-small] [--peer DIR]

Peers: PyTorch on the CPU, and, with ``--peer``, Google's package in the environment DIR that ``peer/setup.sh`` of the
instruments has made. Each backend runs in a process of its own, in turn, ``--rounds`` times; the figures are medians.
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

STEPS = Path(__file__).resolve().parents[2] / "shared" / "instruments" / "peer" / "steps.py"
Figures = dict[tuple[str, str], list[float]]


def run(python: str, backend: str, mode: str, only: str) -> list[dict]:
    """One process of the workload file; its JSON lines."""
    env = dict(os.environ)
    if backend != "torchtpu":
        env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        env.pop("PYTHONPATH", None)
    command = [python, str(STEPS), "--backend", backend, "--mode", mode, "--only", only, "--rounds", "5"]
    out = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def table(host: Figures, total: Figures, peers: list[str]) -> None:
    works = list(dict.fromkeys(work for _, work in total))
    ratios = "".join(f"  {'host/' + p:>10} {'total/' + p:>10}" for p in peers)
    print(f"{'work':62} {'host us':>9} {'total us':>9}{ratios}")
    for work in works:
        ours = statistics.median(host["torchtpu", work]), statistics.median(total["torchtpu", work])
        row = f"{work[:62]:62} {ours[0]:9.1f} {ours[1]:9.1f}"
        for peer in peers:
            theirs = statistics.median(host[peer, work]), statistics.median(total[peer, work])
            row += f"  {ours[0] / theirs[0]:10.2f} {ours[1] / theirs[1]:10.2f}"
        print(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="add,mm,chain,mlp-small,transformer-small,mlp,transformer")
    parser.add_argument("--peer", help="a virtual environment with Google's package")
    args = parser.parse_args()
    if not STEPS.exists():
        sys.exit(f"benchmarks.eager: expected the workload file at {STEPS}, found none. It is one of the instruments.")
    backends = [("torchtpu", sys.executable, "strict"), ("cpu", sys.executable, "eager")]
    if args.peer:
        backends.append(("peer", str(Path(args.peer) / "bin" / "python"), "strict"))
    host: Figures = defaultdict(list)
    total: Figures = defaultdict(list)
    for _ in range(args.rounds):
        for backend, python, mode in backends:
            for line in run(python, backend, mode, args.only):
                if "total_us" in line:
                    host[backend, line["work"]].append(line["host_us"])
                    total[backend, line["work"]].append(line["total_us"])
    table(host, total, [name for name, _, _ in backends[1:]])


if __name__ == "__main__":
    main()
