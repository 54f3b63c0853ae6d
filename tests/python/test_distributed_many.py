"""A group of more ranks than exchange frames with each other: threads of one process, each with its own backend."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

from torchtpu import _C, _distributed

SIZE = 36
SUM = SIZE * (SIZE - 1) / 2


def everyone(function: Callable[[int], object]) -> list[Exception | None]:
    """What each rank raised."""
    errors: list[Exception | None] = [None] * SIZE

    def run(rank: int) -> None:
        try:
            function(rank)
        except Exception as error:
            errors[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(SIZE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@pytest.fixture
def group() -> Any:
    _C._bind_process_group()
    store = dist.HashStore()
    backends: list[Any] = [None] * SIZE

    def make(rank: int) -> None:
        options = _C._ProcessGroupOptions(timeout=timedelta(seconds=60))
        backends[rank] = _C._ProcessGroup(store, rank, SIZE, options, _distributed._connect)

    assert not any(everyone(make))
    yield backends
    everyone(lambda rank: backends[rank].abort())


def test_collectives(group: Any) -> None:
    def run(rank: int) -> None:
        for count in (5, 5000):
            # They share a device, so none may queue what another's collective waits for behind a wait of its own.
            x, y, z = (torch.full((count,), float(rank), device="tpu") for _ in range(3))
            out = torch.empty(SIZE * count, device="tpu")
            torch.tpu.synchronize()
            computed.wait()
            group[rank].allreduce([x], dist.AllreduceOptions()).wait()
            group[rank]._allgather_base(out, y).wait()
            options = dist.BroadcastOptions()
            options.rootRank = 3
            group[rank].broadcast([z], options).wait()
            group[rank].barrier(dist.BarrierOptions()).wait()
            assert x.tolist() == [SUM] * count and z.tolist() == [3] * count
            assert torch.equal(out.cpu(), torch.arange(float(SIZE)).repeat_interleave(count))

    computed = threading.Barrier(SIZE)
    assert everyone(run) == [None] * SIZE


def test_a_rank_that_does_not_call(group: Any) -> None:
    def run(rank: int) -> None:
        group[rank].set_timeout(timedelta(seconds=4))
        if rank not in (7, 20):
            x = torch.ones(5, device="tpu")
            group[rank].allreduce([x], dist.AllreduceOptions()).wait()
            x.tolist()

    for rank, error in enumerate(everyone(run)):
        assert (error is None) == (rank in (7, 20))
        assert error is None or "waiting for ranks 7, 20, which did not call it" in str(error)


def test_a_rank_that_calls_something_else(group: Any) -> None:
    def run(rank: int) -> None:
        x = torch.ones(5, device="tpu")
        if rank == 7:
            group[rank]._allgather_base(torch.empty(5 * SIZE, device="tpu"), x).wait()
        else:
            group[rank].allreduce([x], dist.AllreduceOptions()).wait()
            x.tolist()

    for error in everyone(run)[:7]:
        assert "all_reduce(SUM) of float32[5]" in str(error) and "rank 7 called all_gather of float32[5]" in str(error)


def test_a_fake_group() -> None:
    """One process that stands for many, as for cuda: what is computed has the shapes of a rank of theirs."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=8)
    try:
        mesh = init_device_mesh("tpu", (8,))
        x = distribute_tensor(torch.ones(16, 4, device="tpu"), mesh, [Shard(0)])
        assert (x + 1).to_local().shape == (2, 4)
        assert (x @ x.t()).redistribute(mesh, [Shard(1)]).to_local().shape == (16, 2)
    finally:
        dist.destroy_process_group()
