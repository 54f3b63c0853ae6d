"""Debug mode: an index out of range is an IndexError of the line that made it, and the device works afterwards."""

import traceback
from collections.abc import Callable

import pytest
import torch
from process import run
from torch.nn import functional as F

import torchtpu


def t(*values: int) -> torch.Tensor:
    return torch.tensor(values, device="tpu")


def x() -> torch.Tensor:
    return torch.arange(12.0, device="tpu").view(3, 4)


# Name in the message, dimension, offending value, bounds, and the call.
CASES: list[tuple[str, int, int, str, Callable[[], object]]] = [
    ("gather", 1, 4, "[0, 4)", lambda: x().gather(1, t(0, 4, 9).view(1, 3))),
    ("gather", 0, -1, "[0, 3)", lambda: x().gather(0, t(0, -1).view(1, 2))),
    ("scatter", 0, 3, "[0, 3)", lambda: x().scatter(0, t(0, 3).view(1, 2), torch.ones(1, 2, device="tpu"))),
    ("scatter", 1, 7, "[0, 4)", lambda: x().scatter_(1, t(7).view(1, 1), 1.0)),
    ("scatter_add", 1, 5, "[0, 4)", lambda: x().scatter_add_(1, t(5).view(1, 1), torch.ones(1, 1, device="tpu"))),
    ("scatter_reduce", 0, 8, "[0, 3)", lambda: x().scatter_reduce(0, t(8).view(1, 1), x(), "amax")),
    ("index", 0, 3, "[-3, 3)", lambda: x()[t(1, 3)]),
    ("index", 1, -5, "[-4, 4)", lambda: x()[:, t(0, -5)]),
    ("index", 1, 6, "[-4, 4)", lambda: x()[t(0, 1), t(2, 6)]),
    ("index_put", 0, 5, "[-3, 3)", lambda: x().index_put((t(5),), torch.zeros((), device="tpu"))),
    ("index_put", 0, -4, "[-3, 3)", lambda: x().__setitem__(t(-4), 1.0)),
    ("index_put", 1, 4, "[-4, 4)", lambda: x().index_put_((t(0), t(4)), torch.ones(1, device="tpu"), accumulate=True)),
    ("index_select", 0, 3, "[0, 3)", lambda: x().index_select(0, t(0, 3))),
    ("index_add", 0, 3, "[0, 3)", lambda: x().index_add(0, t(3), torch.ones(1, 4, device="tpu"))),
    ("index_copy", 1, 9, "[0, 4)", lambda: x().index_copy(1, t(9), torch.ones(3, 1, device="tpu"))),
    ("index_fill", 0, 3, "[-3, 3)", lambda: x().index_fill(0, t(3), 1.0)),
    ("embedding", 0, 3, "[0, 3)", lambda: F.embedding(t(0, 3), x())),
    ("embedding", 0, -1, "[0, 3)", lambda: F.embedding(t(0, -1), x())),
    ("embedding_bag", 0, 3, "[0, 3)", lambda: F.embedding_bag(t(0, 3).view(1, 2), x())),
    ("nll_loss", 1, 4, "[0, 4)", lambda: F.nll_loss(x(), t(0, 4, 1))),
    ("nll_loss", 1, -2, "[0, 4)", lambda: F.cross_entropy(x(), t(0, -2, 1))),
    ("take", 0, 12, "[-12, 12)", lambda: x().take(t(12))),
    ("put", 0, -13, "[-12, 12)", lambda: x().put_(t(-13), torch.ones(1, device="tpu"))),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}")
def test_index_out_of_range(case):
    name, dim, value, bounds, call = case
    with torchtpu.mode("debug"):
        with pytest.raises(IndexError) as caught:
            call()
        message = str(caught.value)
        assert name in message.split(":", 3)[2], message
        assert f"index {value} is out of bounds for dimension {dim}, expected {bounds}" in message
        # The device goes on, and so does the op with good indices.
        assert x().sum().item() == 66
        assert x()[t(1, 2)].cpu().tolist() == [[4, 5, 6, 7], [8, 9, 10, 11]]


def test_in_place_error_changes_nothing():
    a = x()
    view = a[1]
    with torchtpu.mode("debug"), pytest.raises(IndexError):
        view.index_fill_(0, t(2, 4), -1.0)
    assert a.cpu().tolist() == x().cpu().tolist()
    view.index_fill_(0, t(2), -1.0)
    assert a.cpu()[1].tolist() == [4, 5, -1, 7]


def test_error_comes_from_its_line():
    index = t(5)

    def wrong() -> torch.Tensor:
        return x().index_select(0, index)  # here

    with torchtpu.mode("debug"), pytest.raises(IndexError) as caught:
        y = wrong()
        y + 1  # never reached
    line = traceback.extract_tb(caught.value.__traceback__)[-1].line
    assert line is not None and line.endswith("# here")


def test_launch_blocking():
    code = """
        import torch, torchtpu
        assert torchtpu.get_mode() == "debug"
        x = torch.ones(3, device="tpu")
        try:
            x[torch.tensor([3], device="tpu")]
        except IndexError as error:
            print(error)
    """
    for environment in ({"TPU_LAUNCH_BLOCKING": "1"}, {"TORCHTPU_MODE": "debug"}):
        assert "index 3 is out of bounds for dimension 0, expected [-3, 3)" in run(code, **environment)


def test_ignored_targets_are_not_out_of_range():
    with torchtpu.mode("debug"):
        logits = x().requires_grad_()
        loss = F.cross_entropy(logits, t(0, -100, 3))
        loss.backward()
        expected = F.cross_entropy(x().cpu(), torch.tensor([0, -100, 3]))
        torch.testing.assert_close(loss.cpu(), expected)
        F.embedding_bag(t(0, 2), x(), t(0, 1))
        empty = torch.empty(0, dtype=torch.long, device="tpu")
        assert x()[empty].shape == (0, 4) and F.embedding(empty, x()).shape == (0, 4)


def test_out_of_range_inside_a_training_step():
    """The error leaves parameters and optimizer state as they were; the next step is a good one."""
    model = torch.nn.Sequential(torch.nn.Embedding(4, 3), torch.nn.Flatten(), torch.nn.Linear(6, 2)).to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before = [p.detach().cpu() for p in model.parameters()]
    with torchtpu.mode("debug"):
        with pytest.raises(IndexError, match="embedding"):
            model(t(1, 4).view(1, 2))
        assert all(torch.equal(p.cpu(), b) for p, b in zip(model.parameters(), before, strict=True))
        F.cross_entropy(model(t(1, 3).view(1, 2)), t(1)).backward()
        optimizer.step()
    assert all(torch.isfinite(p).all() for p in model.parameters())


@pytest.mark.strict_mode
def test_strict_mode_stays_usable_after_an_index_out_of_range():
    y = x()[t(5)]
    torch.tpu.synchronize()
    assert y.shape == (1, 4)
    assert x().sum().item() == 66
