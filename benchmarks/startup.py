"""What TorchTPU adds to `import torch`, and the time to a first result, each in fresh processes.

python -m benchmarks.startup [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys

IMPORT = """
import json, resource, time
start = time.perf_counter()
import torch
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""
FIRST = """
import json, time
import torch
start = time.perf_counter()
(torch.ones(4, device="tpu") + 1).cpu()
print(json.dumps({"seconds": time.perf_counter() - start}))
"""


def run(code: str, autoload: bool) -> dict[str, float]:
    env = dict(os.environ, TORCH_DEVICE_BACKEND_AUTOLOAD="1" if autoload else "0")
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    return json.loads(out.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with_, without, first = [], [], []
    for _ in range(rounds):
        without.append(run(IMPORT, autoload=False))
        with_.append(run(IMPORT, autoload=True))
        first.append(run(FIRST, autoload=True))

    def median(runs: list[dict[str, float]], name: str) -> float:
        return statistics.median(r[name] for r in runs)

    print(f"import torch            {median(without, 'seconds'):.2f} s, {median(without, 'mb'):.0f} MB")
    print(f"  with TorchTPU         {median(with_, 'seconds'):.2f} s, {median(with_, 'mb'):.0f} MB")
    print(f"first result after that {median(first, 'seconds'):.2f} s (torch.ones(4, device='tpu') + 1, on the host)")


if __name__ == "__main__":
    main()
