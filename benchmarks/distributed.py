"""Collectives and training steps of two ranks on `tpu` beside CPU tensors with Gloo, in the same processes.

python -m benchmarks.distributed [--rounds 30]

Each round measures a workload once on each side, one after the other; medians and their ratio are printed. The ranks
share this machine's cores.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from benchmarks.steps import Attention

SIZE = 2
CALLS = 20  # of the small collective a sample
Workload = Callable[[], None]


def collective(device: str, size_bytes: int, calls: int) -> Workload:
    x = torch.ones(size_bytes // 4, device=device)

    def run() -> None:
        for _ in range(calls):
            dist.all_reduce(x, dist.ReduceOp.MAX)
            x[0].item()  # as a program that needs the result

    return run


def training(device: str, wrap: Callable[[nn.Module], nn.Module]) -> Workload:
    torch.manual_seed(0)
    model = wrap(nn.Sequential(*(Attention(128, 4) for _ in range(6))).to(device))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    x = torch.randn(4, 64, 128, device=device)

    def run() -> None:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()

    return run


def sharded(device: str) -> Callable[[nn.Module], nn.Module]:
    mesh = init_device_mesh(device, (SIZE,))

    def wrap(model: nn.Module) -> nn.Module:
        for layer in model.children():
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    return wrap


def measure(rank: int, port: int, rounds: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("cpu:gloo,tpu:tpu", rank=rank, world_size=SIZE)
    devices = ("tpu", "cpu")
    workloads: dict[str, tuple[int, list[Workload]]] = {
        "all_reduce 1 KiB": (CALLS, [collective(d, 1024, CALLS) for d in devices]),
        "all_reduce 16 MiB": (1, [collective(d, 16 << 20, 1) for d in devices]),
        "step of one process": (1, [training(d, lambda model: model) for d in devices]),
        "DDP step": (1, [training(d, nn.parallel.DistributedDataParallel) for d in devices]),
        "FSDP2 step": (1, [training(d, sharded(d)) for d in devices]),
    }
    if rank == 0:
        print(f"{'':24}{'tpu us':>12}{'cpu+gloo us':>12}{'ratio':>8}")
    for name, (calls, sides) in workloads.items():
        samples: list[list[float]] = [[], []]
        for turn in range(rounds + 3):
            for run, sample in zip(sides, samples, strict=True):
                dist.barrier()
                begin = time.perf_counter()
                run()
                if turn >= 3:  # the first ones compile
                    sample.append((time.perf_counter() - begin) * 1e6 / calls)
        ours, theirs = (statistics.median(sample) for sample in samples)
        if rank == 0:
            print(f"{name:24}{ours:12.0f}{theirs:12.0f}{ours / theirs:8.2f}", flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(measure, (port, arguments.rounds), nprocs=SIZE)


if __name__ == "__main__":
    main()
