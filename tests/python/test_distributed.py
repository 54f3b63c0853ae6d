"""The process group `tpu`: every collective, on every data type, against what its definition gives on the host."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from ranks import Ranks
from torch.distributed import ReduceOp

import torchtpu

SIZE = 2
NUMBERS = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
]
MOVED = [*NUMBERS, torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16]
PROGRAMS = int(os.environ.get("TORCHTPU_RANK_PROGRAMS", "10"))
COUNTS = [0, 1, 5, 1000, 50_001]  # in one message, and beside it; not a multiple of the number of ranks


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    pool = Ranks(SIZE)
    yield pool
    pool.close()


def values(rank: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """A rank's own numbers, small enough for every type; the same in every process."""
    generator = torch.Generator().manual_seed(rank)
    return torch.randint(0, 8, (count,), generator=generator).to(dtype)


def device() -> torch.device:
    return torch.device("tpu", torch.tpu.current_device())


def same(found: torch.Tensor, wanted: torch.Tensor) -> None:
    assert found.device.type == "tpu" and found.dtype == wanted.dtype and found.shape == wanted.shape
    if found.dtype.itemsize == 1 and found.is_floating_point():
        found, wanted = found.view(torch.uint8), wanted.view(torch.uint8)
    assert torch.equal(found.cpu(), wanted)


REDUCTIONS = {
    "SUM": lambda x: sum(x[1:], x[0]),
    "AVG": lambda x: (sum(x[1:], x[0]) / len(x)).to(x[0].dtype),
    "PRODUCT": lambda x: torch.stack(x).prod(0, dtype=x[0].dtype),
    "MIN": lambda x: torch.stack(x).amin(0),
    "MAX": lambda x: torch.stack(x).amax(0),
    "BAND": lambda x: torch.bitwise_and(x[0], x[1]),
    "BOR": lambda x: torch.bitwise_or(x[0], x[1]),
    "BXOR": lambda x: torch.bitwise_xor(x[0], x[1]),
}


def reduce_all(rank: int) -> None:
    for dtype in NUMBERS:
        for count in COUNTS:
            inputs = [values(r, count, dtype) for r in range(SIZE)]
            for name, reference in REDUCTIONS.items():
                if name.startswith("B") and dtype.is_floating_point:
                    continue
                x = inputs[rank].to(device())
                dist.all_reduce(x, getattr(ReduceOp, name))
                same(x, reference(inputs))


def test_all_reduce(ranks: Ranks) -> None:
    ranks.run(reduce_all)


def reduce_others(rank: int) -> None:
    for op, wanted in [(ReduceOp.SUM, [1, 1, 0]), (ReduceOp.PRODUCT, [1, 0, 0]), (ReduceOp.BXOR, [0, 1, 0])]:
        x = torch.tensor([True, rank == 0, False], device=device())
        dist.all_reduce(x, op)
        same(x, torch.tensor(wanted, dtype=torch.bool))
    x = torch.full((3,), complex(1, rank), dtype=torch.complex64, device=device())
    dist.all_reduce(x)
    same(x, torch.full((3,), complex(2, 1), dtype=torch.complex64))
    x = torch.full((3,), rank + 1.0, device=device())
    dist.all_reduce(x, dist._make_nccl_premul_sum(0.5))
    same(x, torch.full((3,), 1.5))
    x = torch.tensor([float("nan"), 1.0] if rank else [2.0, 3.0], device=device())
    dist.all_reduce(x, ReduceOp.MAX)
    assert x[0].isnan() and x[1] == 3
    # Half types are summed in float32 and rounded once.
    x = torch.full((4,), 256.0 if rank else 1.0, dtype=torch.bfloat16, device=device())
    dist.all_reduce(x, ReduceOp.AVG)
    same(x, torch.full((4,), 128.5).bfloat16())
    for op, dtype in [(ReduceOp.BAND, torch.float32), (ReduceOp.AVG, torch.bool)]:
        with pytest.raises(TypeError, match="is not defined"):
            dist.all_reduce(torch.ones(2, dtype=dtype, device=device()), op)
    x = torch.full((3,), rank + 1.0, device=device())
    dist.reduce(x, 1)
    same(x, torch.full((3,), 3.0 if rank == 1 else 1.0))


def test_reductions_of_other_types(ranks: Ranks) -> None:
    ranks.run(reduce_others)


def move(rank: int) -> None:
    for dtype in MOVED:
        for count in COUNTS:
            inputs = [values(r, count, dtype) for r in range(SIZE)]
            mine = inputs[rank].to(device())
            x = mine.clone()
            dist.broadcast(x, 1)
            same(x, inputs[1])
            parts = [torch.empty_like(mine) for _ in range(SIZE)]
            dist.all_gather(parts, mine)
            for part, wanted in zip(parts, inputs, strict=True):
                same(part, wanted)
            whole = torch.empty(SIZE * count, dtype=dtype, device=device())
            dist.all_gather_into_tensor(whole, mine)
            same(whole, torch.cat(inputs))
            out = torch.empty_like(mine)
            dist.scatter(out, [i.to(device()) for i in inputs] if rank == 0 else None, src=0)
            same(out, inputs[rank])
            gathered = [torch.empty_like(mine) for _ in range(SIZE)] if rank == 1 else None
            dist.gather(mine, gathered, dst=1)
            for part, wanted in zip(gathered or [], inputs, strict=False):
                same(part, wanted)
            sent = torch.cat(inputs).to(device())
            out = torch.empty_like(sent)
            dist.all_to_all_single(out, sent)
            same(out, torch.cat([inputs[rank]] * SIZE))


def test_moves(ranks: Ranks) -> None:
    ranks.run(move)


def move_uneven(rank: int) -> None:
    sizes = [3, 700]
    inputs = [values(r, n, torch.float32) for r, n in enumerate(sizes)]
    parts = [torch.empty(n, device=device()) for n in sizes]
    dist.all_gather(parts, inputs[rank].to(device()))
    for part, wanted in zip(parts, inputs, strict=True):
        same(part, wanted)
    # Rank r sends r + 1 rows to rank 0 and r + 2 to rank 1.
    mine = torch.arange(2 * rank + 3.0).repeat(4, 1).t() + 100 * rank
    out = torch.empty(2 * rank + 3, 4, device=device())
    dist.all_to_all_single(out, mine.contiguous().to(device()), [rank + 1, rank + 2], [rank + 1, rank + 2])
    wanted = [torch.arange(2 * r + 3.0).repeat(4, 1).t() + 100 * r for r in range(SIZE)]
    same(out, torch.cat([w[: r + 1] if rank == 0 else w[r + 1 :] for r, w in enumerate(wanted)]))
    outs = [torch.empty(rank + 1, device=device()) for _ in range(SIZE)]
    dist.all_to_all(outs, [torch.full((p + 1,), 10.0 * rank + p, device=device()) for p in range(SIZE)])
    for p, out in enumerate(outs):
        same(out, torch.full((rank + 1,), 10.0 * p + rank))
    out = torch.empty(rank + 1, device=device())
    dist.reduce_scatter(out, [torch.full((p + 1,), rank + 1.0, device=device()) for p in range(SIZE)])
    same(out, torch.full((rank + 1,), 3.0))


def test_uneven_sizes(ranks: Ranks) -> None:
    ranks.run(move_uneven)


def reduce_scatter(rank: int) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int32):
        for count in (2, 3000):
            whole = [values(r, SIZE * count, dtype) for r in range(SIZE)]
            wanted = (whole[0] + whole[1])[rank * count : (rank + 1) * count]
            out = torch.empty(count, dtype=dtype, device=device())
            dist.reduce_scatter_tensor(out, whole[rank].to(device()))
            same(out, wanted)
            out = torch.empty(count, dtype=dtype, device=device())
            dist.reduce_scatter(out, list(whole[rank].to(device()).chunk(SIZE)))
            same(out, wanted)
    with dist._coalescing_manager(async_ops=True) as manager:
        outs = [torch.empty(n, device=device()) for n in (2, 5)]
        for out in outs:
            dist.reduce_scatter_tensor(out, torch.ones(SIZE * out.numel(), device=device()))
    manager.wait()
    for out in outs:
        same(out, torch.full(out.shape, 2.0))
    with dist._coalescing_manager():
        a, b = torch.ones(3, device=device()), torch.ones(2000, device=device())
        dist.all_reduce(a)
        dist.all_reduce(b)
    same(a, torch.full((3,), 2.0))
    same(b, torch.full((2000,), 2.0))


def test_reduce_scatter_and_coalesced(ranks: Ranks) -> None:
    ranks.run(reduce_scatter)


def views(rank: int) -> None:
    """Inputs and outputs that are parts of a storage: the rest of it stays."""
    whole = torch.arange(12.0, device=device()).reshape(3, 4)
    dist.all_reduce(whole[:, 1])
    dist.all_reduce(whole[2])
    wanted = torch.arange(12.0).reshape(3, 4)
    wanted[:, 1] *= 2
    wanted[2] *= 2
    same(whole, wanted)
    out = torch.zeros(2 * SIZE + 1, device=device())
    dist.all_gather(list(out[:-1].chunk(SIZE)), torch.full((2,), rank + 1.0, device=device()))
    same(out, torch.tensor([1.0, 1, 2, 2, 0]))
    x = torch.ones(2, 3, device=device()).t()
    dist.all_reduce(x)
    same(x.contiguous(), torch.full((3, 2), 2.0))
    # What is read at the call counts, whatever is written later; results are seen by later operations.
    x = torch.ones(1000, device=device())
    work = dist.all_reduce(x, async_op=True)
    y = x * 10
    x += 1
    work.wait()
    same(y, torch.full((1000,), 20.0))
    same(x, torch.full((1000,), 3.0))
    with pytest.raises(RuntimeError, match="single memory location"):
        dist.all_reduce(torch.ones(1, device=device()).expand(3))


def in_mode(rank: int, mode: str) -> None:
    with torchtpu.mode(mode):
        views(rank)


@pytest.mark.parametrize("mode", ["strict", "debug", "fuse"])
def test_views_in_all_modes(ranks: Ranks, mode: str) -> None:
    ranks.run(in_mode, mode)


def messages(rank: int) -> None:
    peer = 1 - rank
    for count in (3, 100_000):
        # Both receive before they send.
        x, y = torch.full((count,), float(rank), device=device()), torch.empty(count, device=device())
        work = dist.irecv(y, peer)
        dist.send(x, peer)
        work.wait()
        same(y, torch.full((count,), float(peer)))
        y.zero_()
        dist.recv(y, peer)
        dist.send(x, peer)
        same(y, torch.full((count,), float(peer)))
        ops = [dist.P2POp(dist.irecv, y, peer), dist.P2POp(dist.isend, x * 3, peer)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        same(y, torch.full((count,), 3.0 * peer))
    # Tags are matched, not the order.
    if rank == 0:
        dist.send(torch.tensor([1.0], device=device()), 1, tag=1)
        dist.send(torch.tensor([2.0], device=device()), 1, tag=2)
    else:
        a, b = torch.empty(1, device=device()), torch.empty(1, device=device())
        dist.recv(b, 0, tag=2)
        assert dist.recv(a, tag=1) == 0
        assert (a.item(), b.item()) == (1, 2)


def test_send_and_receive(ranks: Ranks) -> None:
    ranks.run(messages)


def futures(rank: int) -> Any:
    x = torch.ones(5, device=device())
    work = dist.all_reduce(x, async_op=True)

    def again(future: torch.futures.Future) -> torch.Tensor:
        # A collective that a callback waits for.
        y = future.value()[0] * 2
        return dist.all_reduce(y, async_op=True).get_future().wait()[0]

    result = work.get_future().then(again).wait()
    same(result, torch.full((5,), 8.0))
    work.wait()
    assert work.is_completed() and work.is_success()
    torch.tpu.synchronize()
    event = torch.tpu.Event()
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    event.record()
    event.synchronize()
    assert work.is_completed()
    with torch.profiler.profile() as profile:
        dist.all_reduce(x)
        torch.tpu.synchronize()
    return [e.key for e in profile.key_averages()]


def test_work_futures_and_profiler(ranks: Ranks) -> None:
    for keys in ranks.run(futures):
        assert "tpu:all_reduce" in keys


def objects(rank: int) -> None:
    found = [None] * SIZE
    dist.all_gather_object(found, {"rank": rank})
    assert found == [{"rank": r} for r in range(SIZE)]
    one = ["from 0" if rank == 0 else None]
    dist.broadcast_object_list(one, 0)
    assert one == ["from 0"]
    mine: list[Any] = [None]
    dist.scatter_object_list(mine, ["a", "b"] if rank == 0 else None, src=0)
    assert mine == ["ab"[rank]]
    gathered = [None] * SIZE if rank == 0 else None
    dist.gather_object(rank, gathered, dst=0)
    assert gathered is None or gathered == [0, 1]
    dist.barrier()
    dist.barrier(async_op=True).wait()


def test_objects_and_barrier(ranks: Ranks) -> None:
    ranks.run(objects)


def groups(rank: int) -> None:
    alone = [dist.new_group([r]) for r in range(SIZE)]
    both = dist.new_group([0, 1], timeout=timedelta(seconds=30))
    x = torch.full((3,), rank + 1.0, device=device())
    dist.all_reduce(x, group=alone[rank])
    same(x, torch.full((3,), rank + 1.0))
    works = [dist.all_reduce(x, group=g, async_op=True) for g in (both, None, both)]
    for work in works:
        work.wait()
    same(x, torch.full((3,), 12.0))
    with pytest.raises(RuntimeError):  # as with nccl: the group serves tpu
        dist.all_reduce(torch.ones(2))
    dist.destroy_process_group(both)
    for group in (alone[rank],):
        dist.destroy_process_group(group)
    mixed = dist.new_group([0, 1], backend="cpu:gloo,tpu:tpu")
    for where in ("cpu", device()):
        y = torch.ones(2, device=where)
        dist.all_reduce(y, group=mixed)
        assert y.tolist() == [2, 2]
    found = [None] * SIZE
    dist.all_gather_object(found, rank, group=mixed)
    assert found == [0, 1]
    named = dist.new_group([0, 1], backend="tpu_dist")
    dist.all_reduce(x, group=named)
    same(x, torch.full((3,), 24.0))


def test_groups(ranks: Ranks) -> None:
    ranks.run(groups)


def functional(rank: int) -> None:
    from torch.distributed import _functional_collectives as f
    from torch.distributed.nn import functional as nn

    group = dist.group.WORLD
    x = torch.full((4, 2), rank + 1.0, device=device(), requires_grad=True)
    y = f.all_reduce(x.detach(), "sum", group)
    same(y + 0, torch.full((4, 2), 3.0))
    same(f.all_gather_tensor(x.detach(), 0, group) + 0, torch.cat([torch.ones(4, 2), torch.full((4, 2), 2.0)]))
    same(f.reduce_scatter_tensor(x.detach(), "sum", 0, group) + 0, torch.full((2, 2), 3.0))
    same(f.broadcast(x.detach(), 1, group) + 0, torch.full((4, 2), 2.0))
    y = f.all_to_all_single_autograd(x, None, None, group)
    (y * (rank + 1)).sum().backward()
    same(x.grad, torch.tensor([1.0, 1, 2, 2]).repeat(2, 1).t().contiguous())
    x.grad = None
    f.all_gather_tensor_autograd(x, 0, group).sum().backward()
    same(x.grad, torch.full((4, 2), 2.0))
    x.grad = None
    f.reduce_scatter_tensor_autograd(x, "sum", 0, group).sum().backward()
    same(x.grad, torch.ones(4, 2))
    x.grad = None
    nn.all_reduce(x * 1.0).sum().backward()
    same(x.grad, torch.full((4, 2), 2.0))
    outs = f.all_reduce_coalesced([x.detach(), x.detach() * 2], "avg", group)
    same(outs[1] + 0, torch.full((4, 2), 3.0))


def test_functional_collectives(ranks: Ranks) -> None:
    ranks.run(functional)


def compiled(rank: int) -> None:
    from torch.distributed import _functional_collectives as f

    group = dist.group.WORLD

    def pieces(x: torch.Tensor) -> torch.Tensor:
        return f.all_reduce(x * 2, "sum", group) + 1

    def in_place(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        dist.all_reduce(y)
        return y * 2

    def several(x: torch.Tensor) -> torch.Tensor:
        under_way = [f.all_reduce(x * i, "sum", group) for i in (1, 2)]
        y = x.relu() + 1
        a, b = f.all_reduce_coalesced([y, y + 1], "avg", group)
        return under_way[0] + under_way[1] * a + f.all_to_all_single(b, None, None, group)

    def with_gradient(x: torch.Tensor) -> torch.Tensor:
        y = f.all_gather_tensor_autograd(x * x, 0, group)
        y = f.reduce_scatter_tensor_autograd(y * torch.arange(8.0, device=device())[:, None], "sum", 0, group)
        return f.all_to_all_single_autograd(y.sin(), None, None, group).square()

    before = torch._C._distributed_c10d._get_work_registry_size()
    for function in (pieces, in_place, several, with_gradient):
        program = torch.compile(function, backend="tpu")
        for turn in range(3):
            x = (torch.arange(16.0, device=device()).reshape(4, 4) / 7 + rank + turn).requires_grad_(
                function is with_gradient
            )
            wanted = function(x)
            torch.testing.assert_close(program(x), wanted + 0)
            if x.requires_grad:
                (grad,) = torch.autograd.grad(wanted.sum(), x)
                (found,) = torch.autograd.grad(program(x).sum(), x)
                torch.testing.assert_close(found, grad)
    assert torch._C._distributed_c10d._get_work_registry_size() == before  # all have been waited for
    assert "all_reduce.default runs as in eager mode: it is a collective" in str(torchtpu._graph.splits)


def test_collectives_in_compiled_functions(ranks: Ranks) -> None:
    ranks.run(compiled)


def random_program(rank: int, seed: int, mode: str) -> None:
    """Collectives in one order among programs that differ: the ranks compute, read and branch as they like."""
    shared, own = random.Random(seed), random.Random(1000 * seed + rank)
    with torchtpu.mode(mode):
        x, reference = torch.ones(16, device=device()), torch.ones(16)
        noise = torch.ones(16, device=device())
        weight = torch.ones(16, device=device(), requires_grad=True)
        later: list[tuple[Any, torch.Tensor, float]] = []
        for turn in range(12):
            for _ in range(own.randrange(4)):
                noise = noise * 1.01 + x
            if own.random() < 0.3 and noise.sum().item() > 100:
                noise = noise.sort().values / noise.max()
            if rank == 0 and turn % 3 == 0:
                print(x.mean().item())  # as a program that logs
            kind = shared.choice(["reduce", "gather", "broadcast", "swap", "scatter", "stages", "gradient", "later"])
            if kind == "reduce":
                dist.all_reduce(x, ReduceOp.AVG)
            elif kind == "gather":
                out = torch.empty(32, device=device())
                dist.all_gather_into_tensor(out, x)
                x = out[::2].clone()
            elif kind == "broadcast":
                dist.broadcast(x, shared.randrange(SIZE))
            elif kind == "swap":
                y = torch.empty_like(x)
                work = dist.irecv(y, 1 - rank)
                dist.isend(x * 0.5, 1 - rank)
                work.wait()
                x = x * 0.5 + y
            elif kind == "scatter":
                out = torch.empty(8, device=device())
                dist.reduce_scatter_tensor(out, x, ReduceOp.AVG)
                x = torch.cat([out, out])
            elif kind == "stages":
                # Rank 0 computes and sends, rank 1 computes something else on it and sends back.
                if rank == 0:
                    dist.send(x.relu() * 2, 1)
                    dist.recv(x, 1)
                else:
                    y = torch.empty_like(x)
                    dist.recv(y, 0)
                    x = (y.reshape(4, 4) @ torch.eye(4, device=device())).reshape(16) / 2
                    dist.send(x, 0)
            elif kind == "gradient":
                loss = (weight * x).sum() if rank == 0 else (weight.reshape(4, 4) * x.reshape(4, 4)).sum()
                loss.backward()
                work = dist.all_reduce(weight.grad, ReduceOp.AVG, async_op=True)
                noise = noise + own.random()
                work.wait()
                x, weight.grad = weight.grad, None
            else:
                y = torch.full((40_000,), float(turn), device=device())
                later.append((dist.all_reduce(y, async_op=True), y, 2.0 * turn))
            x, reference = x + 1, reference + 1
        for work, y, wanted in later:
            work.wait()
            assert (y == wanted).all()
        assert torch.allclose(x.cpu(), reference), (seed, mode)


def random_programs(rank: int, seeds: range, mode: str) -> None:
    for seed in seeds:
        random_program(rank, seed, mode)


@pytest.mark.parametrize("mode", ["strict", "debug", "fuse"])
def test_programs_that_differ_between_ranks(ranks: Ranks, mode: str) -> None:
    for first in range(0, PROGRAMS, 10):
        ranks.run(random_programs, range(first, min(first + 10, PROGRAMS)), mode)


def begin_again(rank: int) -> None:
    store = dist.distributed_c10d._get_default_store()
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    for _ in range(2):
        dist.destroy_process_group()
        assert not dist.is_initialized()
        dist.init_process_group(  # without a backend: that of the accelerator; on a device of its own
            store=store, rank=rank, world_size=SIZE, timeout=timedelta(seconds=60), device_id=torch.device("tpu", rank)
        )
        x = torch.ones(3, device=f"tpu:{rank}")
        dist.all_reduce(x)
        same(x, torch.full((3,), 2.0))
    half = dist.split_group(split_ranks=[[0], [1]])
    assert half.size() == 1 and half.rank() == 0
    both = dist.split_group(split_ranks=[[0, 1]])
    dist.all_reduce(x, group=both)
    same(x, torch.full((3,), 4.0))
    dist.new_group([0])  # the ranks outside take part in no way
    dist.destroy_process_group()
    dist.init_process_group("tpu", store=store, rank=rank, world_size=SIZE, timeout=timedelta(seconds=60))


def test_begin_again(ranks: Ranks) -> None:
    ranks.run(begin_again)


PROGRAM = """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("tpu")
rank = int(os.environ["LOCAL_RANK"])
torch.tpu.set_device(rank)
model = DistributedDataParallel(torch.nn.Linear(4, 4).to("tpu"), device_ids=[rank])
model(torch.randn(2, 4, device="tpu")).sum().backward()
grad = model.module.weight.grad
assert grad.device.index == rank
found = [torch.empty_like(grad) for _ in range(2)]
dist.all_gather(found, grad)
assert torch.equal(found[0], found[1])
x = torch.full((3,), float(rank), device="tpu")
dist.send(x, 1) if rank == 0 else dist.recv(x, 0)  # and the program ends
assert x.sum().item() == 0
print("done", rank)
"""


def test_torchrun_in_detail(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)],
        env={**os.environ, "TORCH_DISTRIBUTED_DEBUG": "DETAIL", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("done")) == ["done 0", "done 1"]
