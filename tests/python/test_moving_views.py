"""Views that begin elsewhere each time, as in a loop: a few programs serve all places, and the values are right."""

import pytest
import torch

import torchtpu
from torchtpu import _C

READS = {
    "element": lambda x, i: x[i % 6, i % 7, i % 5],
    "row": lambda x, i: x[i % 6],
    "column": lambda x, i: x[:, i % 7],
    "window": lambda x, i: x[i % 4 : i % 4 + 2, :, i % 3 : i % 3 + 2],
    "transposed": lambda x, i: x.transpose(0, 2)[i % 5],
    "flat": lambda x, i: x.flatten()[i : i + 9],
}


@pytest.mark.parametrize("name", READS)
def test_reads(name):
    host = torch.arange(210.0).reshape(6, 7, 5)
    x, read = host.tpu(), READS[name]
    for i in range(30):
        found = read(x, i) * 2 + read(x, i + 1)
        torch.testing.assert_close(found.cpu(), read(host, i) * 2 + read(host, i + 1))


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("mode", ["strict", "fuse", "debug"])
def test_writes(name, mode):
    torchtpu.set_mode(mode)
    host = torch.arange(210.0).reshape(6, 7, 5)
    x, view = host.tpu(), READS[name]
    for i in range(30):
        for t in (host, x):
            view(t, i).add_(i)
            view(t, i + 1).copy_(view(t, i) * 0.5 if view(t, i).shape == view(t, i + 1).shape else view(t, i + 1))
            view(t, i + 2)[...] = i
            view(t, i).masked_fill_(view(t, i) > 50, -1)
    torch.testing.assert_close(x.cpu(), host)


def test_other_types_conjugates_and_overlap():
    for dtype in (torch.int8, torch.bool, torch.bfloat16, torch.complex64):
        host = (torch.arange(60) % 2).reshape(12, 5).to(dtype)
        x = host.tpu()
        for i in range(12):
            for t in (host, x):
                t[i] = t[(i * 5) % 12].conj() if dtype.is_complex else t[(i * 5) % 12]
            assert torch.equal(x[i].cpu(), host[i])
    y, host = torch.arange(20.0, device="tpu"), torch.arange(20.0)
    for i in range(12):  # read and written: views of one storage
        for t in (host, y):
            t[i : i + 4].add_(t[i + 4 : i + 8])
    assert torch.equal(y.cpu(), host)
    for i in range(12):
        with pytest.raises(RuntimeError, match=r"overlap|single memory location"):
            y[i : i + 4].add_(y[i + 1 : i + 5])


def test_places_share_programs():
    x = torch.arange(4096.0, device="tpu").reshape(64, 64)
    x[0, 0].item()
    before = _C._compile_count()
    assert [x[i, (i * 7) % 64].item() for i in range(64)] == [float(i * 64 + (i * 7) % 64) for i in range(64)]
    for i in range(64):
        x[:, i] *= 2
    assert torch.equal(x.cpu(), torch.arange(4096.0).reshape(64, 64) * 2)
    assert _C._compile_count() - before < 25


def test_gradients_through_moving_views():
    def loss(x: torch.Tensor) -> torch.Tensor:
        state = x[:, 0]
        for t in range(1, 12):
            state = torch.tanh(state + x[:, t])
        return state.sum()

    host = torch.linspace(-1, 1, 36).reshape(3, 12).requires_grad_()
    x = host.detach().tpu().requires_grad_()
    loss(host).backward()
    loss(x).backward()
    torch.testing.assert_close(x.grad.cpu(), host.grad)
