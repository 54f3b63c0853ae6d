"""Right values where an operation's formula has a special case that its OpInfo samples do not reach."""

import pytest
import torch
from torch.nn import functional as F


@pytest.mark.parametrize(("mode", "sizes"), [("linear", [4]), ("bilinear", [4, 5]), ("trilinear", [2, 4, 5])])
def test_linear_interpolation_of_a_size_to_itself_copies(mode, sizes):
    """Also where the scale is not one: the positions it would give are not used."""
    x = torch.randn(2, 3, *sizes)
    scales = [1.025] * len(sizes)
    for scale in (scales, [2.0, *scales[1:]]):
        results = []
        for device in ("cpu", "tpu"):
            leaf = x.clone().to(device).requires_grad_()
            y = F.interpolate(leaf, scale_factor=scale, mode=mode, align_corners=False)
            (y * y).sum().backward()
            results.append((y.detach().cpu(), leaf.grad.cpu()))
        torch.testing.assert_close(results[1], results[0])
    assert torch.equal(F.interpolate(x.to("tpu"), scale_factor=scales, mode=mode, align_corners=False).cpu(), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_masked_fill_takes_a_number_from_the_cpu(dtype):
    x, value = torch.tensor([1, 1, 1], dtype=dtype, device="tpu"), torch.tensor(False)
    mask = torch.tensor([True, False, True], device="tpu")
    expected = torch.tensor([0, 1, 0], dtype=dtype)
    assert torch.equal(x.masked_fill(mask, value).cpu(), expected)
    assert torch.equal(x.masked_fill_(mask, value).cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
def test_dropout_scales_the_gradient_of_any_type(dtype):
    grad, mask = torch.tensor([1, 1, 0], dtype=dtype), torch.tensor([True, False, True])
    ours, theirs = (torch.ops.aten.native_dropout_backward(grad.to(d), mask.to(d), 2.5) for d in ("tpu", "cpu"))
    assert torch.equal(ours.cpu(), theirs)
    assert ours[0].item() == 2.5
