"""Small operations and training steps on one backend; prints a JSON line each. Run by ``benchmarks.eager``.

python steps.py --backend torchtpu --mode strict|fuse
python steps.py --backend cpu --mode eager
python steps.py --backend peer --mode strict|fuse    (Google's package)
python steps.py --backend xla --mode eager|lazy      (torch_xla)

It imports nothing of this repository, so that it runs in any environment with PyTorch. The small workloads are bound by
the host, as everything is on a fast device; the others by the plugin's arithmetic.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

Step = Callable[[], Tensor]


class Device:
    """A device's name, how it waits, and what ends a step."""

    def __init__(self, backend: str, mode: str) -> None:
        self.name = "tpu" if backend in ("torchtpu", "peer") else backend
        self.end_of_step: Callable[[], None] = lambda: None
        if backend == "torchtpu":
            import torchtpu

            torchtpu.set_mode(mode)
        elif backend == "peer":
            import peer  # noqa: F401  (made by peer/setup.sh of the instruments; loads the package)

            modes = torch.tpu.EagerMode
            torch.tpu.eager_mode = modes.DEFER_AND_FUSE if mode == "fuse" else modes.DEFER_NEVER
        elif backend == "xla":
            import torch_xla

            torch_xla.experimental.eager_mode(mode == "eager")
            if mode == "lazy":
                self.end_of_step = torch_xla.sync


class Attention(nn.Module):
    """A transformer's layer, written out: layer norm, attention by softmax(q k^T) v, and a GELU network."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        size = width // self.heads
        q, k, v = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, size).permute(2, 0, 3, 1, 4)
        weights = ((q @ k.transpose(-1, -2)) * size**-0.5).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, width))
        return x + self.network(self.norm2(x))


class Residual(nn.Module):
    """Two 3x3 convolutions and a shortcut (He et al., "Deep Residual Learning for Image Recognition", 2015)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def mlp(width: int) -> nn.Module:
    blocks = [
        nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.LayerNorm(width))
        for _ in range(6)
    ]
    return nn.Sequential(*blocks)


def transformer(width: int, layers: int = 6) -> nn.Module:
    return nn.Sequential(*[Attention(width, heads=4) for _ in range(layers)])


def resnet18(classes: int) -> nn.Module:
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    widths = [64, 64, 128, 256, 512]
    stages = []
    for i, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        stages += [Residual(inputs, outputs, stride=1 if i == 0 else 2), Residual(outputs, outputs, stride=1)]
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def training(device: Device, model: nn.Module, x: Tensor, y: Tensor) -> Step:
    """A step of AdamW on the mean squared error."""
    model = model.to(device.name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = x.to(device.name), y.to(device.name)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        device.end_of_step()
        return loss.detach()

    return step


def workloads(device: Device) -> dict[str, tuple[int, Callable[[], Step]]]:
    """Name to calls a round and what makes the step."""
    ones = torch.ones(64, 64).to(device.name)
    numbers = torch.randn(256, 256).to(device.name)

    def chain() -> Tensor:
        z = numbers
        for _ in range(10):
            z = torch.tanh(z * 1.01 + 0.1)
        device.end_of_step()
        return z

    def like(*dims: int) -> tuple[Tensor, Tensor]:
        return torch.randn(*dims), torch.randn(*dims)

    return {
        "add": (1000, lambda: lambda: ones + ones),
        "mm": (1000, lambda: lambda: ones @ ones),
        "chain": (20, lambda: chain),
        "mlp-small": (20, lambda: training(device, mlp(32), *like(8, 32))),
        "transformer-small": (20, lambda: training(device, transformer(32), *like(2, 16, 32))),
        "mlp": (20, lambda: training(device, mlp(256), *like(32, 256))),
        "transformer": (20, lambda: training(device, transformer(256), *like(4, 64, 256))),
        "resnet18": (5, lambda: training(device, resnet18(10), torch.randn(4, 3, 64, 64), torch.randn(4, 10))),
    }


def measure(step: Step, calls: int, rounds: int) -> dict[str, float]:
    """Medians over rounds of microseconds a call: until it returns, and until the last result is there."""
    start = time.perf_counter()
    for _ in range(3):
        result = step()
    result.sum().item()
    first = time.perf_counter() - start
    host, total = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            result = step()
        returned = time.perf_counter()
        result.sum().item()
        host.append((returned - start) / calls * 1e6)
        total.append((time.perf_counter() - start) / calls * 1e6)
    return {"host_us": statistics.median(host), "total_us": statistics.median(total), "first_three_s": first}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["torchtpu", "cpu", "peer", "xla"], required=True)
    parser.add_argument("--mode", required=True)
    parser.add_argument("--only", required=True, help="names of workloads, with commas")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(2)  # of CPU PyTorch
    torch.manual_seed(0)
    device = Device(args.backend, args.mode)
    makers = workloads(device)
    for name in args.only.split(","):
        calls, make = makers[name]
        print(json.dumps({"work": name, **measure(make(), calls, args.rounds)}), flush=True)


if __name__ == "__main__":
    main()
