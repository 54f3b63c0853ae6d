"""Run by torchrun: trains from the last checkpoint on; in all attempts but the last a rank is killed at some moment.

train_until_killed.py FOLDER STEPS KILLS SEED. FOLDER gets what the others raised, and a checkpoint with all losses.
"""

import os
import random
import signal
import sys
import threading
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCH = 12


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 40), nn.Tanh(), nn.Linear(40, 1))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(BATCH, 8, generator=torch.Generator().manual_seed(step))
    return x, x.sin().sum(1, keepdim=True)


def losses_alone(steps: int) -> list[float]:
    """What one process finds on the CPU."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for step in range(steps):
        x, y = batch(step)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def train(folder: Path, steps: int, doomed: bool) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(net().to("tpu"))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    saved, losses = folder / "checkpoint.pt", []
    if saved.exists():
        state = torch.load(saved, map_location="tpu")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        losses = state["losses"]
    while len(losses) < steps or doomed:
        x, y = (part.chunk(size)[rank].to("tpu") for part in batch(len(losses)))
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())
        if rank == 0 and len(losses) <= steps:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}
            torch.save(state, folder / "next.pt")
            os.replace(folder / "next.pt", saved)


def main() -> None:
    folder, steps, kills, seed = Path(sys.argv[1]), *map(int, sys.argv[2:])
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    # torchrun ends those that are left; they are to end by themselves.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    torch.set_num_threads(1)
    dist.init_process_group("tpu")
    doomed = attempt < kills
    choice = random.Random(1000 * seed + attempt)
    victim, delay_s = choice.randrange(size), choice.random()
    if doomed and rank == victim:
        threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGKILL)).start()
    try:
        train(folder, steps, doomed)
    except RuntimeError as error:
        (folder / f"error-{attempt}-{rank}").write_text(f"{victim}\n{error}")
        os._exit(1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
