"""Training steps: eager strict mode, torch.compile, a whole compiled step, and the CPU (eager and inductor's).

    python -m benchmarks.compile [--models mlp-small,transformer-small] [--inductor]

Prints microseconds a step and ratios to strict mode. Runs are interleaved.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

import torchtpu
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--inductor", action="store_true", help="also torch.compile on the CPU")
    options = parser.parse_args()
    kinds = [("tpu", "strict"), ("tpu", "compile"), ("tpu", "step"), ("cpu", "strict")]
    if options.inductor:
        kinds.append(("cpu", "compile"))
    for name in options.models.split(","):
        torch._dynamo.reset()
        steps = {kind: prepare(name, *kind) for kind in kinds}
        times: dict[tuple[str, str], list[float]] = {kind: [] for kind in kinds}
        for (device, _), step in steps.items():
            measure(step, device, 5)
        for _ in range(options.rounds):
            for kind, step in steps.items():
                times[kind].append(measure(step, kind[0], 10 if "small" in name else 3))
        base = statistics.median(times["tpu", "strict"])
        for kind, found in times.items():
            median = statistics.median(found)
            print(f"{name:20}{kind[0]:5}{kind[1]:9}{median:12.1f} us   strict / this {base / median:6.2f}")


if __name__ == "__main__":
    main()
