"""fairscale 0.4.13's tensor-parallel layers, unmodified, on two ranks: the losses of one process on the CPU."""

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from ranks import Ranks
from torch import nn

pytest.importorskip("fairscale")

SIZE = 2
VOCABULARY, WIDTH, HIDDEN = 12, 8, 16


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    pool = Ranks(SIZE)
    yield pool
    pool.close()


def device() -> torch.device:
    return torch.device("tpu", torch.tpu.current_device())


def weights() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = {
        "embedding": (VOCABULARY, WIDTH),
        "up": (HIDDEN, WIDTH),
        "down": (WIDTH, HIDDEN),
        "head": (VOCABULARY, WIDTH),
    }
    return {name: torch.randn(shape, generator=generator) / 3 for name, shape in shapes.items()}


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [tuple(torch.randint(0, VOCABULARY, (3, 5), generator=generator) for _ in range(2)) for _ in range(4)]


def losses_alone() -> list[float]:
    w = {name: nn.Parameter(weight) for name, weight in weights().items()}
    optimizer = torch.optim.Adam(w.values(), 0.01)
    losses = []
    for tokens, target in batches():
        x = F.embedding(tokens, w["embedding"])
        logits = F.linear(F.linear(F.gelu(F.linear(x, w["up"])), w["down"]), w["head"])
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def train(rank: int) -> None:
    from fairscale.nn.model_parallel import initialize
    from fairscale.nn.model_parallel.cross_entropy import vocab_parallel_cross_entropy
    from fairscale.nn.model_parallel.layers import ColumnParallelLinear, RowParallelLinear, VocabParallelEmbedding

    initialize.initialize_model_parallel(SIZE)
    layers = nn.ModuleDict(
        {
            "embedding": VocabParallelEmbedding(VOCABULARY, WIDTH),
            "up": ColumnParallelLinear(WIDTH, HIDDEN, bias=False, gather_output=False),
            "down": RowParallelLinear(HIDDEN, WIDTH, bias=False, input_is_parallel=True),
            "head": ColumnParallelLinear(WIDTH, VOCABULARY, bias=False, gather_output=False),
        }
    )
    for name, weight in weights().items():
        layers[name].weight.data.copy_(weight.chunk(SIZE, 1 if name == "down" else 0)[rank])
    layers.to(device())
    optimizer = torch.optim.Adam(layers.parameters(), 0.01)
    losses = []
    for tokens, target in batches():
        x = layers["embedding"](tokens.to(device()))
        logits = layers["head"](layers["down"](F.gelu(layers["up"](x))))
        assert logits.shape[-1] == VOCABULARY // SIZE
        loss = vocab_parallel_cross_entropy(logits, target.to(device())).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    torch.testing.assert_close(losses, losses_alone(), rtol=1e-4, atol=1e-5)
    initialize.destroy_model_parallel()


def test_layers_of_fairscale(ranks: Ranks) -> None:
    ranks.run(train)
