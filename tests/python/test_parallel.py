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


def attention(rank: int) -> None:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("tpu", (SIZE,))
    for heads, bias in [(4, None), (2, None), (4, (1, 1, 6, 6)), (2, (6, 6)), (4, (2, 4, 6, 6))]:
        torch.manual_seed(0)
        whole = [torch.randn(2, h, 6, 8) for h in (4, heads, heads)]
        if bias:
            whole.append(torch.randn(bias))
        wanted = [t.clone().requires_grad_() for t in whole]
        options = {"is_causal": not bias, "enable_gqa": heads != 4}
        reference = F.scaled_dot_product_attention(*wanted, **options)
        reference.square().sum().backward()
        for placement in (Shard(1), Shard(0), Replicate()):
            parts = [
                distribute_tensor(
                    t.to(device()), mesh, [Replicate() if t.shape[0] != 2 else placement]
                ).requires_grad_()
                for t in whole
            ]
            out = F.scaled_dot_product_attention(*parts, **options)
            out.square().sum().backward()
            assert out.placements == (placement,)
            torch.testing.assert_close(out.full_tensor().cpu(), reference, **CLOSE)
            for part, one in zip(parts, wanted, strict=True):
                torch.testing.assert_close(part.grad.full_tensor().cpu(), one.grad, **CLOSE)


def test_attention_of_sharded_tensors(ranks: Ranks) -> None:
    ranks.run(attention)


def ring(rank: int) -> None:
    """Each rank has a part of the sequence; keys and values go around."""
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import (
        _cp_options,
        context_parallel_unshard,
        set_rotate_method,
    )

    mesh = init_device_mesh("tpu", (SIZE,))
    torch.manual_seed(0)
    whole = [torch.randn(2, 4, 16, 8) for _ in range(3)]
    for is_causal in (True, False):
        wanted = [t.clone().requires_grad_() for t in whole]
        reference = F.scaled_dot_product_attention(*wanted, is_causal=is_causal)
        reference.square().sum().backward()
        _cp_options.enable_load_balance = is_causal
        for method in ("allgather", "alltoall"):
            set_rotate_method(method)
            parts = [t.to(device()) for t in whole]
            with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 3, no_restore_buffers=set(parts)):
                for part in parts:
                    part.requires_grad_()
                out = F.scaled_dot_product_attention(*parts, is_causal=is_causal)
                assert out.shape[2] == 16 // SIZE
                out.square().sum().backward()
                found = context_parallel_unshard(mesh, [out.detach(), *(p.grad for p in parts)], [2] * 4)
            for a, b in zip(found, [reference.detach(), *(t.grad for t in wanted)], strict=True):
                torch.testing.assert_close(a.cpu(), b, **CLOSE)


def test_context_parallel(ranks: Ranks) -> None:
    ranks.run(ring)


def pipeline(rank: int) -> None:
    from torch.distributed.pipelining import (
        PipelineStage,
        Schedule1F1B,
        ScheduleGPipe,
        ScheduleInterleaved1F1B,
        ScheduleInterleavedZeroBubble,
        ScheduleLoopedBFS,
        ScheduleZBVZeroBubble,
    )

    torch.manual_seed(4)
    layers = [nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2 * SIZE)]
    x, y = torch.randn(8, 8), torch.randn(8, 8)
    reference = copy.deepcopy(nn.Sequential(*layers))
    F.mse_loss(reference(x), y).backward()

    def run(schedule: Callable[..., Any], parts: list[list[int]]) -> None:
        modules = [nn.Sequential(*(copy.deepcopy(layers[i]) for i in part)).to(device()) for part in parts]
        count = SIZE * len(parts)
        # Under ZBV the last stages come back: rank 0 has the first and the last.
        v_shaped = schedule is ScheduleZBVZeroBubble
        places = [rank, count - 1 - rank] if v_shaped else [rank + SIZE * k for k in range(len(parts))]
        stages = [PipelineStage(m, place, count, device()) for m, place in zip(modules, places, strict=True)]
        plan = schedule(stages if len(parts) > 1 else stages[0], n_microbatches=4, loss_fn=F.mse_loss)
        losses: list[torch.Tensor] = []
        first, last = rank == 0, rank == (0 if v_shaped else SIZE - 1)
        arguments = (x.to(device()),) if first else ()
        plan.step(*arguments, **({"target": y.to(device()), "losses": losses} if last else {}))
        for part, module in zip(parts, modules, strict=True):
            for layer, index in zip(module, part, strict=True):
                torch.testing.assert_close(layer[0].weight.grad.cpu(), reference[index][0].weight.grad, **CLOSE)
        assert not last or len(losses) == 4

    half = [[2 * rank, 2 * rank + 1]]
    run(ScheduleGPipe, half)
    run(Schedule1F1B, half)
    for schedule in (ScheduleInterleaved1F1B, ScheduleLoopedBFS, ScheduleInterleavedZeroBubble):
        run(schedule, [[rank], [rank + SIZE]])
    run(ScheduleZBVZeroBubble, [[rank], [2 * SIZE - 1 - rank]])


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
