"""PyTorch's parallelisms, unmodified, on two ranks: each trains to the losses of one process on the CPU."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from ranks import Ranks
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

SIZE = 2
STEPS = 4
CLOSE = {"rtol": 2e-4, "atol": 2e-5}  # sums in another order, and four steps of Adam


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    pool = Ranks(SIZE)
    yield pool
    pool.close()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.down = nn.Linear(16, 4)
        self.unused = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.norm(self.up(x))))


def net() -> Net:
    torch.manual_seed(7)
    return Net()


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(8)
    return [(torch.randn(8, 8), torch.randn(8, 4)) for _ in range(STEPS)]


def device() -> torch.device:
    return torch.device("tpu", torch.tpu.current_device())


def alone(model: nn.Module | None = None) -> list[float]:
    """The losses of one process on the CPU."""
    model = model or net()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for x, y in batches():
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def train(rank: int, model: nn.Module, split: bool = True, optimizer: Any = None, **tolerance: float) -> None:
    """The same with a share of each batch a rank (`split`) or all of it, held against one process."""
    optimizer = optimizer or torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for x, y in batches():
        if split:
            x, y = x.chunk(SIZE)[rank], y.chunk(SIZE)[rank]
        loss = F.mse_loss(model(x.to(device())), y.to(device()))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach()
        if split:
            dist.all_reduce(total, dist.ReduceOp.AVG)
        losses.append(total.item())
    torch.testing.assert_close(losses, alone(), **(tolerance or CLOSE))


def ddp(rank: int, **options: Any) -> nn.Module:
    model = net().to(device())
    if not options.get("find_unused_parameters") and not options.get("static_graph"):
        del model.unused
    return nn.parallel.DistributedDataParallel(model, **options)


def data_parallel(rank: int) -> None:
    train(rank, ddp(rank))
    train(rank, ddp(rank, bucket_cap_mb=0.0001))
    train(rank, ddp(rank, gradient_as_bucket_view=True))
    train(rank, ddp(rank, find_unused_parameters=True))
    train(rank, ddp(rank, static_graph=True))
    torch.tpu.set_device(rank)
    train(rank, ddp(rank, device_ids=[rank]))
    torch.tpu.set_device(0)


def test_ddp(ranks: Ranks) -> None:
    ranks.run(data_parallel)


def hooks(rank: int) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    model = ddp(rank)
    model.register_comm_hook(None, default_hooks.allreduce_hook)
    train(rank, model)
    model = ddp(rank)
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    train(rank, model, rtol=0.05, atol=0.01)
    model = ddp(rank)
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    train(rank, model, rtol=0.2, atol=0.05)


def test_ddp_comm_hooks(ranks: Ranks) -> None:
    ranks.run(hooks)


def accumulate(rank: int) -> None:
    model = ddp(rank)
    reference = net()
    for i, (x, y) in enumerate(batches()):
        x, y = x.chunk(SIZE)[rank], y.chunk(SIZE)[rank]
        if i < STEPS - 1:
            with model.no_sync():
                F.mse_loss(model(x.to(device())), y.to(device())).backward()
        else:
            F.mse_loss(model(x.to(device())), y.to(device())).backward()
    sum(F.mse_loss(reference(x), y) for x, y in batches()).backward()
    torch.testing.assert_close(model.module.up.weight.grad.cpu(), reference.up.weight.grad, **CLOSE)
    # Join: the rank with more batches goes on alone.
    from torch.distributed.algorithms.join import Join

    with Join([model]):
        for x, _ in batches()[: 2 + rank]:
            model(x.to(device())).sum().backward()


def test_ddp_accumulation_and_join(ranks: Ranks) -> None:
    ranks.run(accumulate)


def zero(rank: int) -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.utils.data import DistributedSampler

    model = ddp(rank)
    train(rank, model, optimizer=ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01))
    sampler = DistributedSampler(range(10), shuffle=False)
    assert list(sampler) == list(range(rank, 10, SIZE))


def test_zero_optimizer_and_sampler(ranks: Ranks) -> None:
    ranks.run(zero)


def sync_batch_norm(rank: int) -> None:
    torch.manual_seed(3)
    one = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    model = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(one)).to(device())
    model = nn.parallel.DistributedDataParallel(model)
    x = torch.randn(4, 3, 6, 6)
    (model(x.chunk(SIZE)[rank].to(device())) ** 2).mean().backward()
    (one(x) ** 2).mean().backward()
    torch.testing.assert_close(model.module[0].weight.grad.cpu(), one[0].weight.grad, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(model.module[1].running_var.cpu(), one[1].running_var, **CLOSE)


def test_sync_batch_norm(ranks: Ranks) -> None:
    ranks.run(sync_batch_norm)


def fully_sharded(rank: int) -> None:
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh("tpu", (SIZE,))

    def sharded(**options: Any) -> nn.Module:
        model = net().to(device())
        for layer in (model.up, model.norm, model.down):
            fully_shard(layer, mesh=mesh, **options)
        return fully_shard(model, mesh=mesh, **options)

    train(rank, sharded())
    train(rank, sharded(reshard_after_forward=False))
    train(rank, sharded(mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32)), rtol=0.05, atol=0.02)
    # Nothing is allocated before each rank makes its shard.
    with torch.device("meta"):
        model = Net()
    for layer in (model.up, model.down):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model.to_empty(device=device())
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict

    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, net().state_dict() if rank == 0 else {}, options=options)
    train(rank, model)
    full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    assert rank != 0 or full["up.weight"].shape == (16, 8)
    offloaded = fully_shard(net(), mesh=mesh, offload_policy=CPUOffloadPolicy(pin_memory=False))
    x, y = (t.chunk(SIZE)[rank].to(device()) for t in batches()[0])
    F.mse_loss(offloaded(x), y).backward()
    assert offloaded.up.weight.grad.device.type == "cpu"
    reference = net()
    F.mse_loss(reference(batches()[0][0]), batches()[0][1]).backward()
    shard = reference.up.weight.grad.chunk(SIZE)[rank]
    torch.testing.assert_close(offloaded.up.weight.grad.to_local(), shard, **CLOSE)


def test_fsdp2(ranks: Ranks) -> None:
    ranks.run(fully_sharded)


def tensor_parallel(rank: int) -> None:
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        loss_parallel,
        parallelize_module,
    )

    mesh = init_device_mesh("tpu", (SIZE,), mesh_dim_names=("tp",))
    model = net().to(device())
    del model.norm
    model.norm = nn.Identity()
    reference = copy.deepcopy(model).cpu()
    parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    x, y = batches()[0]
    loss = F.mse_loss(model(x.to(device())), y.to(device()))
    loss.backward()
    wanted = F.mse_loss(reference(x), y)
    wanted.backward()
    torch.testing.assert_close(loss.cpu(), wanted, **CLOSE)
    torch.testing.assert_close(model.up.weight.grad.full_tensor().cpu(), reference.up.weight.grad, **CLOSE)
    norm = parallelize_module(nn.LayerNorm(8).to(device()), mesh, SequenceParallel(sequence_dim=0))
    out = norm(distribute_tensor(x.to(device()), mesh, [Shard(0)]))
    torch.testing.assert_close(out.full_tensor().cpu(), F.layer_norm(x, (8,)), **CLOSE)
    scores = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    target = torch.tensor([0, 3, 5, 1])
    logits = distribute_tensor(scores.to(device()), mesh, [Shard(1)]).requires_grad_()
    with loss_parallel():
        loss = F.cross_entropy(logits, target.to(device()))
        loss.backward()
    scores.requires_grad_()
    wanted = F.cross_entropy(scores, target)
    wanted.backward()
    torch.testing.assert_close(loss.full_tensor().cpu(), wanted, **CLOSE)
    torch.testing.assert_close(logits.grad.full_tensor().cpu(), scores.grad, **CLOSE)
    a = DTensor.from_local(torch.ones(2, 4, device=device()), mesh, [Shard(0)])
    b = a * 2
    assert b.redistribute(mesh, [Shard(1)]).to_local().shape == (4, 2)
    assert (b.redistribute(mesh, [Replicate()]).to_local().cpu() == 2).all()
    torch.manual_seed(5)
    drawn = torch.distributed.tensor.randn(4, 4, device_mesh=mesh, placements=[Shard(0)])
    assert len(drawn.full_tensor().unique()) == 16


def test_tensor_parallel(ranks: Ranks) -> None:
    ranks.run(tensor_parallel)


def pipeline(rank: int) -> None:
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

    torch.manual_seed(4)
    layers = [nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2 * SIZE)]
    x, y = torch.randn(8, 8), torch.randn(8, 8)
    reference = copy.deepcopy(nn.Sequential(*layers))
    F.mse_loss(reference(x), y).backward()

    def run(schedule: Callable[..., Any], parts: list[list[int]]) -> None:
        modules = [nn.Sequential(*(copy.deepcopy(layers[i]) for i in part)).to(device()) for part in parts]
        count = SIZE * len(parts)
        stages = [PipelineStage(module, rank + SIZE * k, count, device()) for k, module in enumerate(modules)]
        plan = schedule(stages if len(parts) > 1 else stages[0], n_microbatches=4, loss_fn=F.mse_loss)
        losses: list[torch.Tensor] = []
        first, last = rank == 0, rank == SIZE - 1
        arguments = (x.to(device()),) if first else ()
        plan.step(*arguments, **({"target": y.to(device()), "losses": losses} if last else {}))
        for part, module in zip(parts, modules, strict=True):
            for layer, index in zip(module, part, strict=True):
                torch.testing.assert_close(layer[0].weight.grad.cpu(), reference[index][0].weight.grad, **CLOSE)
        assert not last or len(losses) == 4

    half = [[2 * rank, 2 * rank + 1]]
    run(ScheduleGPipe, half)
    run(Schedule1F1B, half)
    run(ScheduleInterleaved1F1B, [[rank], [rank + SIZE]])


def test_pipeline(ranks: Ranks) -> None:
    ranks.run(pipeline)


def checkpoint(rank: int, folder: str) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("tpu", (SIZE,))
    model = fully_shard(net().to(device()), mesh=mesh)
    saved = {"model": model.state_dict()}
    dcp.save(saved, checkpoint_id=f"{folder}/plain")
    with_cpu = dist.new_group([0, 1], backend="cpu:gloo,tpu:tpu")
    dcp.async_save(saved, checkpoint_id=f"{folder}/async", process_group=with_cpu).result()
    for name in ("plain", "async"):
        other = fully_shard(Net().to(device()), mesh=mesh)
        found = {"model": other.state_dict()}
        dcp.load(found, checkpoint_id=f"{folder}/{name}")
        other.load_state_dict(found["model"])
        for a, b in zip(other.parameters(), net().parameters(), strict=True):
            assert torch.equal(a.full_tensor().cpu(), b)
    # Read with another layout.
    for placement in (Shard(1), Replicate()):
        weight = distribute_tensor(torch.zeros(16, 8, device=device()), mesh, [placement])
        dcp.load({"model": {"up.weight": weight}}, checkpoint_id=f"{folder}/plain")
        assert torch.equal(weight.full_tensor().cpu(), net().up.weight)


def test_checkpoint(ranks: Ranks, tmp_path: Path) -> None:
    ranks.run(checkpoint, str(tmp_path))
