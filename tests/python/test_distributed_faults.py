"""Ranks that call something else, nothing at all, or are gone: an error that says so, in time, and a new beginning."""

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from ranks import Ranks

SIZE = 4


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    pool = Ranks(SIZE)
    yield pool
    pool.close()


def device() -> torch.device:
    return torch.device("tpu", torch.tpu.current_device())


def the_store() -> dist.Store:
    store = dist.distributed_c10d._get_default_store()
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return store


def begin(rank: int, size: int, timeout_s: float) -> None:
    """The group ends, whatever its state, and another takes its place."""
    store = the_store()
    dist.destroy_process_group()
    if rank < size:
        timeout = timedelta(seconds=timeout_s)
        dist.init_process_group("tpu", store=store, rank=rank, world_size=size, timeout=timeout)


def failure_of(call: Callable[[], object]) -> str:
    with pytest.raises(RuntimeError) as caught:
        call()
        torch.tpu.synchronize()
    return str(caught.value)


def mismatch(rank: int) -> None:
    calls: list[tuple[Callable[[], object], Callable[[], object], str, str]] = [
        (
            lambda: dist.all_reduce(torch.ones(4, device=device())),
            lambda: dist.broadcast(torch.ones(4, device=device()), 1),
            "all_reduce(SUM) of float32[4]",
            "broadcast(src=1) of float32[4]",
        ),
        (
            lambda: dist.all_reduce(torch.ones(4, device=device())),
            lambda: dist.all_reduce(torch.ones(50_000, device=device())),
            "all_reduce(SUM) of float32[4]",
            "all_reduce(SUM) of float32[50000]",
        ),
        (
            lambda: dist.all_reduce(torch.ones(4, device=device())),
            lambda: dist.all_reduce(torch.ones(4, dtype=torch.int32, device=device()), dist.ReduceOp.MAX),
            "all_reduce(SUM) of float32[4]",
            "all_reduce(MAX) of int32[4]",
        ),
        (
            lambda: dist.all_gather(
                [torch.ones(4, device=device()) for _ in range(SIZE)], torch.ones(4, device=device())
            ),
            lambda: dist.all_gather(
                [torch.ones(5, device=device()) for _ in range(SIZE)], torch.ones(5, device=device())
            ),
            "all_gather of float32[4]",
            "all_gather of float32[5]",
        ),
        (
            lambda: dist.send(torch.ones(4, device=device()), 3),
            lambda: dist.recv(torch.ones(5, device=device()), 0),
            "send(dst=3) of float32[4]",
            "recv(src=0) of float32[5]",
        ),
    ]
    for first, other, one, two in calls:
        point_to_point = one.startswith("send")
        if not point_to_point or rank == 3:
            message = failure_of(other if rank == 3 else first)
            if rank == 3 or not point_to_point:
                assert one in message and two in message, message
        elif rank == 0:
            first()
        begin(rank, SIZE, 60)


def test_ranks_that_call_different_things(ranks: Ranks) -> None:
    ranks.run(mismatch)


def die(rank: int, victim: int, seed: int) -> None:
    """Collectives of all kinds until the victim is killed, by a clock that knows nothing of them."""
    kinds, clock = random.Random(seed), random.Random(-seed)
    begin(rank, victim + 1, 60)
    size = dist.get_world_size()
    works = []
    if rank == victim:
        threading.Timer(clock.random() * 0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
    with pytest.raises(RuntimeError) as caught:
        while True:
            x = torch.ones(kinds.choice([10, 300_000]), device=device())
            kind = kinds.randrange(3)
            if kind == 0:
                dist.all_reduce(x)
            elif kind == 1:
                dist.all_gather_into_tensor(torch.empty(size * x.numel(), device=device()), x)
            else:
                works.append(dist.irecv(x, (rank - 1) % size))
                dist.isend(torch.ones_like(x), (rank + 1) % size)
            if kinds.random() < 0.2:
                x.sum().item()
    assert f"rank {victim}" in str(caught.value), str(caught.value)
    begin(rank, victim, 60)
    y = torch.ones(3, device=device())
    dist.all_reduce(y)
    assert y.tolist() == [victim] * 3


def test_ranks_that_are_killed(ranks: Ranks) -> None:
    for victim in (3, 2, 1):
        ranks.run(die, victim, victim, last_dies=True)
