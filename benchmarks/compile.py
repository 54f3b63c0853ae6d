"""Training steps: eager strict mode, torch.compile, a whole compiled step, the CPU (eager and inductor's), and JAX.

    python -m benchmarks.compile [--models mlp-small,transformer-small] [--inductor] [--jax DIR]

Prints microseconds a step, ratios to strict mode and, with `--jax` and an environment that has JAX, to `jax.jit` of the
same mathematics on JAX's own CPU backend. Runs are interleaved.
"""

import argparse
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import torchtpu
from benchmarks.peers import environment
from benchmarks.steps import mlp, transformer

Step = Callable[[], torch.Tensor]


# As in steps.py, of the same names.
MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "mlp-small": lambda: (mlp(32), torch.randn(8, 32)),
    "transformer-small": lambda: (transformer(32), torch.randn(2, 16, 32)),
    "mlp": lambda: (mlp(256), torch.randn(32, 256)),
    "transformer": lambda: (transformer(256), torch.randn(4, 64, 256)),
}


def loss_of(model: Callable[..., torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(model(x), x)


def prepare(name: str, device: str, how: str) -> Step:
    torch.manual_seed(0)
    model, x = MODELS[name]()
    model, x = model.to(device), x.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    if how == "step":
        step = torchtpu.compile_step(model, optimizer, loss_of)
        return lambda: step(x)
    run = torch.compile(model) if how == "compile" else model

    def eager() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(run, x)
        loss.backward()
        optimizer.step()
        return loss

    return eager


def measure(step: Step, device: str, steps: int) -> float:
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    if device == "tpu":
        torch.tpu.synchronize()
    return (time.perf_counter() - begin) / steps * 1e6


class Jax:
    """A process that takes steps when asked to."""

    def __init__(self, folder: str) -> None:
        command = [str(Path(folder) / "bin" / "python"), str(Path(__file__).with_name("jax_steps.py"))]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, env=environment(), stdin=pipe, stdout=pipe, text=True)
        self._answer()

    def measure(self, name: str, steps: int) -> float:
        assert self._process.stdin
        self._process.stdin.write(f"{name} {steps}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"jax_steps.py ended with {self._process.wait()}")
        return answer

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--inductor", action="store_true", help="also torch.compile on the CPU")
    parser.add_argument("--jax", help="an environment with JAX: also jax.jit")
    options = parser.parse_args()
    jax = Jax(options.jax) if options.jax else None
    kinds = [("tpu", "strict"), ("tpu", "compile"), ("tpu", "step"), ("cpu", "strict")]
    if options.inductor:
        kinds.append(("cpu", "compile"))
    for name in options.models.split(","):
        torch._dynamo.reset()
        calls = 10 if "small" in name else 3
        steps = {kind: prepare(name, *kind) for kind in kinds}
        times: dict[tuple[str, str], list[float]] = {kind: [] for kind in kinds}
        for (device, _), step in steps.items():
            measure(step, device, 5)
        if jax:
            times["jax", "jit"] = []
            jax.measure(name, 5)
        for _ in range(options.rounds):
            for kind, step in steps.items():
                times[kind].append(measure(step, kind[0], calls))
            if jax:
                times["jax", "jit"].append(jax.measure(name, calls))
        medians = {kind: statistics.median(found) for kind, found in times.items()}
        bases = {"strict": ("tpu", "strict"), "jax": ("jax", "jit")} if jax else {"strict": ("tpu", "strict")}
        for kind, median in medians.items():
            ratios = "".join(f"   {base} / this {medians[of] / median:6.2f}" for base, of in bases.items())
            print(f"{name:20}{kind[0]:5}{kind[1]:9}{median:12.1f} us{ratios}", flush=True)
    if jax:
        jax.close()


if __name__ == "__main__":
    main()
