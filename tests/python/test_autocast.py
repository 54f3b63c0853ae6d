"""Autocast and gradient scaling."""

import pytest
import torch


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(8, 8).to("tpu")


def test_lower_precision(x):
    with torch.autocast("tpu"):
        assert (x @ x).dtype == torch.bfloat16
        assert torch.nn.functional.linear(x, x).dtype == torch.bfloat16
    assert (x @ x).dtype == torch.float32


def test_float16(x):
    with torch.autocast("tpu", dtype=torch.float16):
        assert (x @ x).dtype == torch.float16
    assert torch.get_autocast_dtype("tpu") == torch.bfloat16


def test_float32(x):
    with torch.autocast("tpu"):
        half = x @ x
        assert half.exp().dtype == torch.float32
        assert half.softmax(-1).dtype == torch.float32
        assert half.sum().dtype == torch.float32
        assert half.norm().dtype == torch.float32


def test_widest(x):
    with torch.autocast("tpu"):
        assert torch.addcmul(x, x @ x, x).dtype == torch.float32
        assert (x @ x + 1).dtype == torch.bfloat16


def test_nested_and_disabled(x):
    with torch.autocast("tpu"):
        with torch.autocast("tpu", enabled=False):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16


def test_other_devices_are_left_alone():
    with torch.autocast("tpu"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


def test_unsafe_loss_is_refused(x):
    with torch.autocast("tpu"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        torch.nn.functional.binary_cross_entropy(x.sigmoid(), x.sigmoid())


def test_unsupported_type_warns():
    with pytest.warns(UserWarning, match="target dtype is not supported"):
        torch.autocast("tpu", dtype=torch.float64)


def test_device_filled_in(x):
    with torch.tpu.amp.autocast():
        assert (x @ x).dtype == torch.bfloat16

    class Square(torch.autograd.Function):
        @staticmethod
        @torch.tpu.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx, x):
            return x * x

    with torch.autocast("tpu"):
        assert Square.apply(x.bfloat16()).dtype == torch.float32


def test_training_step():
    model = torch.nn.Linear(4, 1).to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.tpu.amp.GradScaler(init_scale=8.0)
    before = model.weight.detach().cpu()
    with torch.autocast("tpu", dtype=torch.float16):
        loss = model(torch.ones(2, 4, device="tpu")).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 8.0
    torch.testing.assert_close(model.weight.detach().cpu(), before - 0.2, rtol=1e-3, atol=1e-3)


def test_scaler_skips_infinite_gradients():
    weight = torch.ones(2, device="tpu", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("tpu", init_scale=4.0)
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.detach().cpu().tolist() == [1, 1] and scaler.get_scale() == 2.0
