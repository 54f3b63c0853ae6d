"""Ranks that call something else, nothing at all, or are gone: an error that says so, in time, and a new beginning."""

import os
import random
import re
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from ranks import Ranks

import torchtpu._distributed

SIZE = 4
KEPT: list[dist.Store] = []  # the store of the last group


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
    KEPT[:] = [the_store()]
    dist.destroy_process_group()
    if rank < size:
        begin_anew(rank, size, timeout_s)


def begin_anew(rank: int, size: int, timeout_s: float, **options: Any) -> None:
    dist.distributed_c10d._world.group_count = 0  # what groups are named by, also after an attempt that failed
    timeout = timedelta(seconds=timeout_s)
    dist.init_process_group("tpu", store=KEPT[0], rank=rank, world_size=size, timeout=timeout, **options)


def meet(rank: int, label: str) -> None:
    """All ranks come here before any goes on; without a group."""
    KEPT[0].set(f"{label}/{rank}", "")
    KEPT[0].wait([f"{label}/{other}" for other in range(SIZE)], timedelta(seconds=60))


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


def missing(rank: int, count: int) -> None:
    """Rank 2 does not call; the others name it. Then it calls, and learns why there is nobody."""
    begin(rank, SIZE, 5)
    dist.barrier()
    if rank == 2:
        meet(rank, f"missing/{count}")
    message = failure_of(lambda: dist.all_reduce(torch.ones(count, device=device())))
    assert f"all_reduce(SUM) of float32[{count}] (sequence 2, rank {rank} of 4" in message
    assert re.search(r"timed out after \d+ ms waiting for ranks? [0-9, ]*2[0-9, ]*, which did not call it", message)
    if rank != 2:
        meet(rank, f"missing/{count}")
    begin(rank, SIZE, 60)
    x = torch.ones(3, device=device())
    dist.all_reduce(x)
    assert x.tolist() == [SIZE] * 3


@pytest.mark.parametrize("count", [4, 300_000])
def test_a_rank_that_does_not_call(ranks: Ranks, count: int) -> None:
    ranks.run(missing, count)


def missing_elsewhere(rank: int) -> None:
    """In a barrier, in a message, and in a group of two, whose ranks have two numbers. The time limit is changed."""
    begin(rank, SIZE, 60)
    dist.barrier()
    if rank != 2:
        work = dist.barrier(async_op=True)
        with pytest.raises(RuntimeError, match="Operation timed out"):
            work.wait(timedelta(milliseconds=20))  # for the program; the barrier goes on
    meet(rank, "wait")
    if rank == 2:
        dist.barrier()
    dist.barrier()
    dist.group.WORLD.set_timeout(timedelta(seconds=4))
    if rank != 2:
        with pytest.raises(dist.DistBackendError, match=r"barrier\(\) .*\n?.*waiting for ranks? [013, ]*2"):
            dist.barrier()
    meet(rank, "barrier")
    begin(rank, SIZE, 4)
    if rank == 0:
        assert "timed out waiting for rank 3 to send it" in failure_of(
            lambda: dist.recv(torch.ones(4, device=device()), 3)
        )
    meet(rank, "receive")
    begin(rank, SIZE, 60)
    half = dist.new_group([1, 3], timeout=timedelta(seconds=4))
    if rank == 1:
        message = failure_of(lambda: dist.all_reduce(torch.ones(4, device=device()), group=half))
        assert "rank 0 (global rank 1) of 2" in message
        assert "waiting for rank 1 (global rank 3), which did not call it" in message
    meet(rank, "half")
    begin(rank, SIZE, 60)
    with pytest.raises(ValueError, match="only implemented for GLOO"):  # as with nccl
        dist.monitored_barrier()


def test_a_rank_that_does_not_call_other_things(ranks: Ranks) -> None:
    ranks.run(missing_elsewhere)


def disagree(rank: int) -> None:
    """Ranks that make another group, have another version, or do not come."""
    begin(rank, SIZE, 60)
    dist.destroy_process_group()
    message = "timed out after 2000 ms waiting for rank 3, which did not make the group"
    if rank != 3:
        with pytest.raises(dist.DistBackendError, match=message):
            begin_anew(rank, SIZE, 2)
    meet(rank, "late")
    software = torchtpu._distributed._software
    if rank == 1:
        torchtpu._distributed._software = lambda: "torchtpu 7"
    with pytest.raises(
        dist.DistBackendError, match=r"do not run the same software: rank 0 has .* rank 1 has torchtpu 7"
    ):
        begin_anew(rank, SIZE, 60)
    torchtpu._distributed._software = software
    begin_anew(rank, SIZE, 60)
    if rank < 2:
        with pytest.raises(dist.DistBackendError, match=r"rank 0 makes it of 2 ranks \(0, 1\), rank 1 of 3 ranks"):
            dist.new_group([0, 1] if rank == 0 else [0, 1, 2])
    begin(rank, SIZE, 60)


def test_ranks_that_make_different_groups(ranks: Ranks) -> None:
    ranks.run(disagree)


def end(rank: int) -> None:
    """A group that is aborted or destroyed while there is work under way, and another after it."""
    begin(rank, SIZE, 60)
    y = torch.ones(4, device=device())
    if rank == 0:
        work = dist.all_reduce(y, async_op=True)
        message = dist.irecv(torch.ones(4, device=device()), 1)
    dist.distributed_c10d._abort_process_group()
    if rank == 0:
        for handle in (work, message):
            with pytest.raises(RuntimeError, match="the group was aborted"):
                handle.wait()
        with pytest.raises(RuntimeError, match="the group was aborted"):
            y.tolist()
    begin_anew(rank, SIZE, 60)
    # What is under way comes to its end.
    results = [torch.ones(200_000, device=device()) for _ in range(5)]
    for x in results:
        dist.all_reduce(x, async_op=True)
    waiting = torch.ones(4, device=device())
    work = dist.irecv(waiting, (rank + 1) % SIZE)
    dist.destroy_process_group()
    for x in results:
        assert (x == SIZE).all()
    with pytest.raises(RuntimeError, match=r"recv.*(the group was destroyed|lost rank)"):  # what nobody sent
        work.wait()
    begin_anew(rank, SIZE, 60, device_id=torch.device("tpu", 0))
    pair = dist.split_group(split_ranks=[[0, 2]])
    x = torch.full((3,), rank + 1.0, device=device())
    if rank in (0, 2):
        dist.all_reduce(x, group=pair)
        assert x.tolist() == [4.0] * 3 and dist.get_group_rank(pair, 2) == 1
    else:
        assert pair in (None, dist.GroupMember.NON_GROUP_MEMBER)
    begin(rank, SIZE, 60)


def test_groups_that_end_with_work_under_way(ranks: Ranks) -> None:
    ranks.run(end)


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
