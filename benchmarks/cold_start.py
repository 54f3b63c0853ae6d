"""Time to the first training step of a transformer, in a fresh process: compile cache empty, then full.

python -m benchmarks.cold_start [--rounds 3] [--layers 12] [--width 128] [--peer DIR]

``--peer``: beside it Google's package, in the environment that ``peer/setup.sh`` of the instruments has made. The
seconds of a phase are summed over all threads, so they may exceed the time that passed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.peers import environment

STEP = """
import contextlib, json, sys, time
begin = time.perf_counter()
layers, width, peer = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "peer"
if peer:
    import peer
import torch
import torch._dynamo  # PyTorch's optimizers import it on every device; the peer has by now
if not peer:
    import torchtpu
sys.path.append(sys.argv[4])
import steps
torch.manual_seed(0)
start = time.perf_counter()
torch.zeros(1, device="tpu")
opened = time.perf_counter()
model = steps.transformer(width, layers).to("tpu")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x = torch.randn(4, 32, width).to("tpu")
def step():
    optimizer.zero_grad()
    loss = (model(x) - x).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss.item()
torch.accelerator.synchronize()
built = time.perf_counter()
with contextlib.nullcontext() if peer else torchtpu.explain() as report:
    first_loss = step()
    torch.accelerator.synchronize()  # the optimizer's part, which the loss does not wait for
first = time.perf_counter()
step()
torch.accelerator.synchronize()
second = time.perf_counter()
step()
torch.accelerator.synchronize()
third = time.perf_counter()
more = {} if peer else vars(torchtpu.cache.stats()) | report.phases
print(json.dumps({"open": opened - start, "model": built - opened, "first step": first - built,
                  "second step": second - first, "third step": third - second,
                  "to first step": first - start, "import": start - begin,
                  "with import": first - begin, "loss": first_loss, **more}))
"""


def run(directory: str, layers: int, width: int, peer: str | None = None) -> dict[str, float]:
    python, backend = (str(Path(peer) / "bin" / "python"), "peer") if peer else (sys.executable, "torchtpu")
    env = environment() if peer else {**os.environ, "TORCHTPU_CACHE_DIR": directory}
    out = subprocess.run(
        [python, *(["-P"] if peer else []), "-c", STEP, str(layers), str(width), backend, str(Path(__file__).parent)],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return json.loads(out.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--peer", help="a virtual environment with Google's package")
    options = parser.parse_args()
    cold, warm, peer = [], [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as directory:
            cold.append(run(directory, options.layers, options.width))
            warm.append(run(directory, options.layers, options.width))
            if options.peer:
                peer.append(run(directory, options.layers, options.width, options.peer))
    if len({r["loss"] for r in cold + warm}) != 1:
        raise SystemExit(f"expected one loss, found {sorted({r['loss'] for r in cold + warm})}")

    print(f"{'':16}{'empty cache':>12}{'full cache':>12}{'ratio':>8}")
    for name in ("import", "open", "model", "first step", "second step", "third step", "to first step", "with import"):
        a, b = (statistics.median(r[name] for r in runs) for runs in (cold, warm))
        print(f"{name:16}{a:10.3f} s{b:10.3f} s{b / a:8.2f}")
    if peer:
        for name in ("import", "open", "model", "first step", "to first step", "with import"):
            a, b = (statistics.median(r[name] for r in runs) for runs in (cold, peer))
            print(f"{name:16}{a:10.3f} s, Google's package {b:10.3f} s, ratio {a / b:6.2f}")
    print("of the first step, seconds over all threads by phase:")
    for name in ("trace", "decompose", "emit", "compile", "load"):
        a, b = (statistics.median(r[name] for r in runs) for runs in (cold, warm))
        print(f"{name:16}{a:10.3f} s{b:10.3f} s")
    for name in ("requests", "compilations", "host_hits"):
        a, b = (statistics.median(r[name] for r in runs) for runs in (cold, warm))
        print(f"{name.replace('_', ' '):16}{a:12.4g}{b:12.4g}")


if __name__ == "__main__":
    main()
