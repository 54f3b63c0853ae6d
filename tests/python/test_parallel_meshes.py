"""Four ranks: meshes of two dimensions, experts, and a checkpoint that two ranks read. All held against one process."""

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from ranks import Ranks
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

SIZE = 4
STEPS = 4
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    pool = Ranks(SIZE)
    yield pool
    pool.close()


def device() -> torch.device:
    return torch.device("tpu", torch.tpu.current_device())


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8), nn.Linear(8, 8))


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(2)
    return [tuple(torch.randn(8, 8, generator=generator) for _ in range(2)) for _ in range(STEPS)]


def train(model: nn.Module, where: object, part: int = 0, parts: int = 1) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for x, y in batches():
        x, y = (t.chunk(parts)[part].to(where) for t in (x, y))
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        if parts > 1:
            dist.all_reduce(total, dist.ReduceOp.AVG)
        losses.append(total.item())
    return losses


def hybrid(rank: int) -> None:
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("tpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    for reshard in (True, False, 2):
        model = net().to(device())
        for layer in (model[0], model[2]):
            fully_shard(layer, mesh=mesh, reshard_after_forward=bool(reshard))
        fully_shard(model, mesh=mesh, reshard_after_forward=bool(reshard))
        assert model[0].weight.to_local().shape == (8, 8)
        torch.testing.assert_close(train(model, device(), rank, SIZE), train(net(), "cpu"), **CLOSE)
    # A forward that leaves each parameter in the halves of a node.
    model = net().to(device())
    fully_shard(model[0], mesh=init_device_mesh("tpu", (SIZE,)), reshard_after_forward=2)
    fully_shard(model, mesh=init_device_mesh("tpu", (SIZE,)))
    torch.testing.assert_close(train(model, device(), rank, SIZE), train(net(), "cpu"), **CLOSE)


def test_hybrid_sharding(ranks: Ranks) -> None:
    ranks.run(hybrid)


def both(rank: int) -> None:
    """Tensor parallel within, FSDP across."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("tpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = net().to(device())
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    for layer in (model[0], model[2], model[3]):
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    assert model[0].weight.to_local().shape == (4, 8)
    torch.testing.assert_close(train(model, device(), rank // 2, 2), train(net(), "cpu"), **CLOSE)


def test_fsdp_with_tensor_parallel(ranks: Ranks) -> None:
    ranks.run(both)


def experts(rank: int) -> None:
    """Each rank has an expert; tokens go to the one that the router chose, in uneven numbers, and come back."""
    from torch.distributed._functional_collectives import all_to_all_single_autograd

    torch.manual_seed(0)
    every = nn.ModuleList(nn.Linear(8, 8) for _ in range(SIZE))
    router = nn.Linear(8, SIZE)
    tokens = torch.randn(SIZE, 10, 8)

    def alone(x: torch.Tensor) -> torch.Tensor:
        scores = router(x).softmax(-1)
        weight, chosen = scores.max(-1)
        out = torch.stack([every[i](t) for t, i in zip(x, chosen.tolist(), strict=True)])
        return out * weight[:, None]

    loss = sum(alone(tokens[r]).square().sum() for r in range(SIZE))
    loss.backward()
    mine, route = copy.deepcopy(every[rank]).to(device()), copy.deepcopy(router).to(device())
    mine.zero_grad()
    route.zero_grad()
    x = tokens[rank].to(device())
    weight, chosen = route(x).softmax(-1).max(-1)
    order = chosen.argsort(stable=True)
    sent = torch.bincount(chosen, minlength=SIZE)
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    there, back = sent.tolist(), received.tolist()
    arrived = all_to_all_single_autograd(x[order], back, there, dist.group.WORLD)
    returned = all_to_all_single_autograd(mine(arrived), there, back, dist.group.WORLD)
    out = torch.empty_like(returned).index_copy(0, order, returned) * weight[:, None]
    torch.testing.assert_close(out.detach().cpu(), alone(tokens[rank]).detach(), **CLOSE)
    out.square().sum().backward()
    torch.testing.assert_close(mine.weight.grad.cpu(), every[rank].weight.grad, **CLOSE)
    dist.all_reduce(route.weight.grad)
    torch.testing.assert_close(route.weight.grad.cpu(), router.weight.grad, **CLOSE)


def test_expert_parallel(ranks: Ranks) -> None:
    ranks.run(experts)


def save(rank: int, folder: str) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.fsdp import fully_shard

    model = fully_shard(net().to(device()), mesh=init_device_mesh("tpu", (SIZE,)))
    with_cpu = dist.new_group(list(range(SIZE)), backend="cpu:gloo,tpu:tpu")
    dcp.async_save({"model": model.state_dict()}, checkpoint_id=folder, process_group=with_cpu).result()


def load(rank: int, folder: str) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.fsdp import fully_shard

    model = fully_shard(net().to(device()), mesh=init_device_mesh("tpu", (2,)))
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    state = {"model": model.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    model.load_state_dict(state["model"])
    for found, wanted in zip(model.parameters(), net().parameters(), strict=True):
        assert torch.equal(found.full_tensor().cpu(), wanted)


def test_checkpoint_of_four_ranks_is_read_by_two(ranks: Ranks, tmp_path: Path) -> None:
    ranks.run(save, str(tmp_path))
    two = Ranks(2)
    try:
        two.run(load, str(tmp_path))
    finally:
        two.close()
