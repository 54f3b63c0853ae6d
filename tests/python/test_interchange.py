"""Memory shared within PyTorch without its views: DLPack, lazy clones."""

import pytest
import torch
from torch.utils.dlpack import to_dlpack


def test_a_dlpack_capsule_shares_a_whole_storage():
    x = torch.arange(6.0, device="tpu").view(2, 3)
    shared = torch.from_dlpack(to_dlpack(x))
    assert shared.device == x.device and shared.shape == x.shape
    shared += 1
    x *= 2
    assert x.tolist() == shared.tolist() == [[2, 4, 6], [8, 10, 12]]


def test_a_dlpack_capsule_of_a_part_is_refused():
    part = torch.arange(6.0, device="tpu")[2:]
    with pytest.raises(RuntimeError, match=r"Share clone\(\)"):
        torch.from_dlpack(to_dlpack(part)).add_(1)
    assert torch.from_dlpack(to_dlpack(part.clone())).tolist() == [2, 3, 4, 5]


def test_other_libraries_get_no_address():
    numpy = pytest.importorskip("numpy")
    x = torch.ones(3, device="tpu")
    with pytest.raises((RuntimeError, BufferError)):
        numpy.from_dlpack(x)
    with pytest.raises(ValueError, match="tpu"):
        x.__dlpack_device__()
    assert numpy.from_dlpack(x.cpu()).tolist() == [1, 1, 1]


def test_from_dlpack_copies_to_the_device():
    host = torch.arange(3.0)
    copy = torch.from_dlpack(host, device="tpu")
    host += 1
    assert copy.device.type == "tpu" and copy.tolist() == [0, 1, 2]


@pytest.mark.parametrize("written", ["clone", "original"])
def test_a_lazy_clone_is_a_copy(written):
    x = torch.arange(12.0, device="tpu").view(3, 4)
    view = x[1:].t()
    clone = torch._lazy_clone(view)
    assert clone.stride() == view.stride() and clone.storage_offset() == view.storage_offset()
    expected = view.tolist()
    changed, kept = (clone, view) if written == "clone" else (view, clone)
    changed += 1
    assert kept.tolist() == expected
    assert changed.cpu().equal(kept.cpu() + 1)


def test_lazy_clones_of_clones_empties_and_gradients():
    x = torch.ones(3, device="tpu", requires_grad=True)
    y = torch._lazy_clone(torch._lazy_clone(x))
    (y * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    assert torch._lazy_clone(torch.empty(0, 3, device="tpu")).shape == (0, 3)
    uninitialised = torch._lazy_clone(torch.empty(3, device="tpu"))
    assert uninitialised.fill_(1).tolist() == [1, 1, 1]
