"""What PyTorch refuses, or warns of, is refused and warned of in its words, on each call."""

import warnings

import pytest
import torch


def both_refuse(program):
    """`program` raises the same on the CPU and on tpu, the second time too."""
    raised = []
    for device in ("cpu", "tpu", "tpu"):
        try:
            program(device)
        except Exception as error:
            raised.append((type(error), str(error).split("\n")[0].replace("tpu:0", "cpu")))
    assert len(raised) == 3
    assert raised[0] == raised[1] == raised[2]


def longs(*values: int) -> torch.Tensor:
    return torch.tensor(values)


REFUSED = {
    "clamp without bounds": lambda d: torch.clamp(torch.ones(3, device=d)),
    "rotation": lambda d: torch.ones(3, 4, device=d).rot90(1, (0, 0)),
    "product": lambda d: torch.ones(3, 4, device=d) @ torch.ones(3, 4, device=d),
    "indices that do not broadcast": lambda d: torch.ones(4, 4, device=d)[longs(0, 1).to(d), longs(0, 1, 2).to(d)],
    "an index that is no integer": lambda d: torch.ones(4, device=d)[torch.ones(2, device=d)],
    "values that do not fit": lambda d: torch.ones(4, device=d).index_put_(
        (longs(0, 1).to(d),), torch.ones(3, device=d)
    ),
    "an index into nothing": lambda d: torch.ones(0, 4, device=d)[longs(0).to(d)],
    "more indices than dimensions": lambda d: torch.ones(2, device=d)[longs(0).to(d), longs(0).to(d)],
    "a uniform range": lambda d: torch.ones(2, device=d).uniform_(2, 1),
    "a uniform range too large": lambda d: torch.ones(2, device=d, dtype=torch.half).uniform_(-6e4, 6e4),
    "a negative deviation": lambda d: torch.ones(2, device=d).normal_(0, -1),
    "a log-normal deviation": lambda d: torch.ones(2, device=d).log_normal_(0, 0),
    "an exponential's rate": lambda d: torch.ones(2, device=d).exponential_(0),
    "a cauchy's scale": lambda d: torch.ones(2, device=d).cauchy_(0, 0),
    "a geometric's probability": lambda d: torch.ones(2, device=d).geometric_(1),
    "a bernoulli's probability": lambda d: torch.bernoulli(torch.ones(2, device=d), 1.5),
    "no integers": lambda d: torch.ones(2, device=d).random_(3, 3),
    "a mask of bytes": lambda d: torch.ones(2, device=d).masked_select(torch.ones(2, device=d, dtype=torch.uint8)),
    "item of nothing": lambda d: torch.ops.aten._local_scalar_dense(torch.ones(0, device=d)),
    "unique of nothing": lambda d: torch.unique(torch.ones(2, 0, device=d), dim=0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_on_the_cpu(name):
    both_refuse(REFUSED[name])


@pytest.mark.parametrize("name", ["add_", "atan2_", "eq_", "fmod_", "pow_", "copysign_", "logical_and_", "lerp_"])
def test_in_place_keeps_the_shape(name):
    arguments = (0.5,) if name == "lerp_" else ()
    both_refuse(lambda d: getattr(torch.ones(1, 3, device=d), name)(torch.ones(2, 3, device=d), *arguments))


def test_indices_of_another_device():
    with pytest.raises(RuntimeError, match=r"indices should be either on .* \(cpu\)"):
        torch.ones(3)[torch.zeros(1, dtype=torch.long, device="tpu")]


def said(program) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program()
    return [str(warning.message).split(" (Triggered")[0] for warning in caught]


WARNED = {
    "uint8 mask": lambda d: torch.ones(3, device=d)[torch.tensor([1, 0, 1], dtype=torch.uint8, device=d)],
    "masked_fill_": lambda d: torch.ones(1, device=d).expand(3).masked_fill_(torch.ones(3, device=d) > 0, 5.0),
    "index_fill_": lambda d: torch.ones(1, device=d).expand(3).index_fill_(0, longs(1).to(d), 5.0),
    "index_put_": lambda d: torch.ones(1, device=d).expand(3).index_put_((longs(1).to(d),), torch.ones(1, device=d)),
    "resized": lambda d: torch.add(torch.ones(3, device=d), 1, out=torch.ones(2, device=d)),
    "resized by a copy": lambda d: torch.nonzero(torch.ones(3, device=d), out=torch.ones(2, 2, device=d).long()),
    "resized nothing": lambda d: torch.add(torch.ones(3, device=d), 1, out=torch.ones(0, device=d)),
}


@pytest.mark.parametrize("name", WARNED)
def test_warned_as_on_the_cpu(name):
    expected = said(lambda: WARNED[name]("cpu"))
    for _ in range(2):
        # Meta kernels written in Python may have said it in words of their own before.
        assert said(lambda: WARNED[name]("tpu"))[-1:] == expected


def test_expanded_tensors_may_be_filled():
    x = torch.zeros(2, 1, device="tpu")
    x.expand(2, 4).fill_(3)
    assert x.tolist() == [[3.0], [3.0]]
    with pytest.raises(RuntimeError, match="single memory location"):
        x.expand(2, 4).add_(1)


def test_new_memory_is_filled_in_deterministic_mode():
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3, device="tpu").isnan().all()
        assert torch.empty_strided((2, 2), (1, 2), device="tpu", dtype=torch.int8).tolist() == [[127, 127]] * 2
        x = torch.ones(2, device="tpu").resize_(4)
        assert x[:2].tolist() == [1, 1] and x[2:].isnan().all()
        torch.histc(torch.ones(4, device="tpu"))  # refused on CUDA only
        assert torch.ones(4, device="tpu").median(0).indices.shape == ()
    finally:
        torch.use_deterministic_algorithms(False)


def test_resizing_to_the_same_size_keeps_the_strides():
    assert torch.ones(2, 3, device="tpu").t().resize_(3, 2).stride() == (1, 3)


def test_out_of_operations_that_have_a_kernel_of_their_own():
    x = torch.tensor([[0.0, 2.0], [3.0, 0.0]], device="tpu")
    places, chosen = torch.empty(0, dtype=torch.long, device="tpu"), torch.empty(0, device="tpu")
    assert torch.nonzero(x, out=places) is places and places.tolist() == [[0, 1], [1, 0]]
    assert torch.masked_select(x, x > 0, out=chosen).tolist() == [2, 3]
    order = torch.randperm(5, device="tpu", out=torch.empty(0, dtype=torch.int32, device="tpu"))
    assert sorted(order.tolist()) == list(range(5)) and order.dtype == torch.int32
    generator = torch.Generator("tpu").manual_seed(3)
    out = torch.empty(0, dtype=torch.long, device="tpu")
    again = torch.randperm(5, device="tpu", generator=torch.Generator("tpu").manual_seed(3))
    assert torch.equal(torch.randperm(5, generator=generator, out=out), again)
    with pytest.raises(RuntimeError, match="dtype"):
        torch.masked_select(x, x > 0, out=torch.empty(0, dtype=torch.long, device="tpu"))
