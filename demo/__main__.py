"""python -m demo [--device tpu] [--quick]: runs both processes, then prints what held.

Exits with 1 when a requirement is not met. This process does not open the device: a TPU serves one at a time.
"""

import argparse
import os
import subprocess
import sys
import time

from demo import results
from demo.settings import OUT, choose
from demo.summary import check, table


def main() -> int:
    started = time.time()
    parser = argparse.ArgumentParser(prog="python -m demo", description="Embeds, trains, resumes, on a device.")
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--quick", action="store_true", help="a few small steps; the losses are not judged")
    arguments = parser.parse_args()
    size = "quick" if arguments.quick else "full"
    settings = choose(arguments.quick)
    OUT.mkdir(exist_ok=True)

    _start("demo.first_process", arguments.device, size, str(started))
    _start("demo.second_process", arguments.device, size)
    first = results.First(**results.read(OUT / "first.json"))
    second = results.Second(**results.read(OUT / "second.json"))

    from demo import plot  # slow to import

    plot.draw(OUT / "loss.png", first, second, settings.checkpoint_step)
    checks = check(first, second, settings, arguments.quick)
    print(f"\n{first.device}\n{table(checks)}")
    began, first_loss = first.seconds_to_training, first.seconds_to_first_loss
    print(f"training began {began:.1f} s after the start; its first loss came at {first_loss:.1f} s")
    print(f"{OUT}/: loss.png, sample.txt, checkpoint.pt; {time.time() - started:.0f} s in all")
    return 0 if all(c.holds for c in checks) else 1


def _start(module: str, *arguments: str) -> None:
    """Runs a module in a process of its own, showing what it prints."""
    quiet = {
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TRANSFORMERS_VERBOSITY": "error",
        "TF_CPP_MIN_LOG_LEVEL": "1",  # of the plugin, which would print before the first line
    }
    command = [sys.executable, "-m", module, *arguments]
    finished = subprocess.run(command, env={**os.environ, **quiet})
    if finished.returncode:
        sys.exit(f"{module} failed, exit status {finished.returncode}")


if __name__ == "__main__":
    sys.exit(main())
