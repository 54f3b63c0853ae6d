"""What a call of a compiled function costs the caller, by its number of parameters.

    python -m benchmarks.call_overhead [--parameters 1,50,200]

Programs run on the device's own thread, so the calling thread's time is what there is beside PJRT's execute. Printed
are its microseconds a call, and those with a backend that does nothing: PyTorch's guards and wrappers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd


class Sum(nn.Module):
    def __init__(self, parameters: int) -> None:
        super().__init__()
        self.terms = nn.ParameterList([torch.full((4,), float(i)) for i in range(parameters)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for term in self.terms:
            x = x + term
        return x


def microseconds(call: Callable[[], Any], rounds: int, calls: int = 300) -> float:
    """The thread's own time, in the best of the rounds: others' work disturbs the caches."""
    times = []
    for _ in range(rounds):
        begin = time.thread_time_ns()
        for _ in range(calls):
            call()
        times.append((time.thread_time_ns() - begin) / calls / 1e3)
        torch.tpu.synchronize()
    return min(times)


def nothing(graph: torch.fx.GraphModule, inputs: Any) -> Callable[[list[Any]], list[torch.Tensor]]:
    result = torch.ones(4, device="tpu")

    def call(arguments: list[Any]) -> list[torch.Tensor]:
        arguments.clear()
        return [result]

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", default="1,50,200")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    backends = {"tpu": "tpu", "nothing": aot_autograd(fw_compiler=nothing, inference_compiler=nothing)}
    print(f"{'parameters':>10}" + "".join(f"{name + ' us':>14}" for name in backends))
    for count in map(int, options.parameters.split(",")):
        model, x = Sum(count).to("tpu"), torch.ones(4, device="tpu")
        row = f"{count:10}"
        for backend in backends.values():
            torch._dynamo.reset()
            run = torch.compile(model, backend=backend, fullgraph=True)
            with torch.no_grad():
                for _ in range(5):
                    run(x)
                row += f"{microseconds(lambda run=run, x=x: run(x), options.rounds):14.1f}"
        print(row, flush=True)


if __name__ == "__main__":
    main()
