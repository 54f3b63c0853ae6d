"""Bad input gives PyTorch's exception and leaves the device usable."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from process import run
from torch.nn import functional as F


@pytest.fixture(autouse=True)
def _device_works_afterwards() -> Iterator[None]:
    yield
    torch.tpu.synchronize()
    assert (torch.arange(4.0, device="tpu") * 2).cpu().tolist() == [0, 2, 4, 6]


def on(device: str) -> Callable[..., torch.Tensor]:
    """Makes tensors of given shape and dtype with known contents."""

    def make(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        count = 1
        for size in shape:
            count *= size
        return torch.arange(count).reshape(shape).to(dtype).to(device)

    return make


MISMATCHES: dict[str, Callable[[Callable[..., torch.Tensor]], object]] = {
    "add-shape": lambda t: t(2, 3) + t(4),
    "mm-shape": lambda t: t(2, 3) @ t(4, 2),
    "mm-dtype": lambda t: t(2, 3) @ t(3, 2, dtype=torch.float64),
    "bmm-rank": lambda t: torch.bmm(t(2, 3), t(3, 2)),
    "linear": lambda t: F.linear(t(2, 3), t(5, 4)),
    "cat-shape": lambda t: torch.cat([t(2, 3), t(3, 2)]),
    "stack-shape": lambda t: torch.stack([t(2), t(3)]),
    "view": lambda t: t(2, 3).view(4),
    "expand": lambda t: t(2, 3).expand(2, 4),
    "dim": lambda t: t(2, 3).sum(2),
    "squeeze-dim": lambda t: t(2, 3).softmax(5),
    "select": lambda t: t(2, 3).select(0, 2),
    "narrow": lambda t: t(2, 3).narrow(1, 2, 4),
    "in-place-broadcast": lambda t: t(3).add_(t(2, 3)),
    "in-place-dtype": lambda t: t(3, dtype=torch.int64).add_(t(3) + 0.5),
    "in-place-bool": lambda t: t(3, dtype=torch.bool).add_(t(3)),
    "out-dtype": lambda t: torch.add(t(3), t(3), out=t(3, dtype=torch.int32)),
    "copy-shape": lambda t: t(2, 3).copy_(t(4)),
    "sub-bool": lambda t: t(2, dtype=torch.bool) - t(2, dtype=torch.bool),
    "neg-bool": lambda t: -t(2, dtype=torch.bool),
    "gather-dtype": lambda t: t(2, 3).gather(0, t(1, 3)),
    "gather-rank": lambda t: t(2, 3).gather(0, t(3, dtype=torch.int64)),
    "index-dtype": lambda t: t(3)[t(2)],
    "index-count": lambda t: t(3)[t(1, dtype=torch.int64), t(1, dtype=torch.int64)],
    "mask-shape": lambda t: t(3)[t(2, dtype=torch.bool)],
    "index-select-rank": lambda t: t(3).index_select(0, t(1, 1, dtype=torch.int64)),
    "where": lambda t: torch.where(t(3, dtype=torch.bool), t(3), t(2)),
    "conv-channels": lambda t: F.conv2d(t(1, 3, 4, 4), t(2, 5, 3, 3)),
    "conv-rank": lambda t: F.conv2d(t(3), t(2, 3, 3, 3)),
    "conv-dtype": lambda t: F.conv2d(t(1, 1, 4, 4), t(1, 1, 2, 2, dtype=torch.bfloat16)),
    "conv-bias-dtype": lambda t: F.conv2d(t(1, 1, 4, 4), t(1, 1, 2, 2), t(1, dtype=torch.bfloat16)),
    "conv-transpose-dtype": lambda t: F.conv_transpose2d(t(1, 1, 4, 4), t(1, 1, 2, 2, dtype=torch.float64)),
    "conv-tbc-dtype": lambda t: torch.conv_tbc(t(4, 2, 3), t(2, 3, 5, dtype=torch.bfloat16), t(5)),
    "conv-kernel": lambda t: F.conv2d(t(1, 1, 2, 2), t(1, 1, 3, 3)),
    "pool": lambda t: F.max_pool2d(t(1, 1, 2, 2), 3),
    "layer-norm": lambda t: F.layer_norm(t(2, 3), (4,)),
    "batch-norm-one": lambda t: F.batch_norm(t(1, 3), None, None, training=True),
    "cross-entropy": lambda t: F.cross_entropy(t(2, 3), t(4, dtype=torch.int64)),
    "cross-entropy-dtype": lambda t: F.cross_entropy(t(2, 3), t(2, dtype=torch.float64)),
    "embedding-dtype": lambda t: F.embedding(t(2), t(3, 4)),
    "max-empty": lambda t: t(0).max(),
    "max-empty-dim": lambda t: t(0, 3).max(0),
    "item": lambda t: t(2).item(),
    "bool": lambda t: bool(t(2)),
    "item-empty": lambda t: t(0).item(),
    "mean-int": lambda t: t(3, dtype=torch.int64).mean(),
    "repeat": lambda t: t(2, 3).repeat(2),
    "pad": lambda t: F.pad(t(2, 3), (1, 1, 1, 1, 1, 1)),
    "pad-reflect": lambda t: F.pad(t(1, 2, 3), (3, 3), mode="reflect"),
    "topk": lambda t: t(3).topk(4),
    "cholesky": lambda t: torch.linalg.cholesky(t(2, 3)),
    "arange": lambda t: torch.arange(0, 5, -1, device=t(1).device),
    "negative-size": lambda t: torch.empty(-1, device=t(1).device),
    "as-strided": lambda t: t(3).as_strided((4,), (1,)),
    "as-strided-negative": lambda t: t(3).as_strided((2,), (-1,)),
    "multinomial": lambda t: torch.multinomial(t(3), 5),
    "einsum": lambda t: torch.einsum("ij,jk->ik", t(2, 3), t(4, 5)),
    "overlap": lambda t: t(1).expand(3).add_(1),
    "backward-scalar": lambda t: t(3).requires_grad_().mul(2).backward(),
    "in-place-leaf": lambda t: t(3).requires_grad_().add_(1),
    "requires-grad-int": lambda t: t(3, dtype=torch.int64).requires_grad_(),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_mismatch(name):
    with pytest.raises(Exception) as expected:  # noqa: PT011
        MISMATCHES[name](on("cpu"))
    with pytest.raises(type(expected.value)) as found:
        MISMATCHES[name](on("tpu"))
    assert type(found.value) is type(expected.value), found.value
    assert str(found.value).strip()


def test_a_convolution_of_mixed_dtypes_names_them():
    x, weight = torch.ones(1, 1, 4, 4, device="tpu"), torch.ones(1, 1, 2, 2, device="tpu", dtype=torch.bfloat16)
    with pytest.raises(RuntimeError, match=r"Input type \(f32\) and weight type \(bf16\) should be the same"):
        F.conv2d(x, weight)


MIXED: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "add": lambda a, b: a + b,
    "mm": lambda a, b: a @ b,
    "in-place": lambda a, b: a.add_(b),
    "cat": lambda a, b: torch.cat([a, b]),
    "where": lambda a, b: torch.where(a > 0, a, b),
    "linear": lambda a, b: F.linear(a, b),
    "out": lambda a, b: torch.add(a, a, out=b),
    "index-select": lambda a, b: a.index_select(0, b.long()[0]),
    "gather": lambda a, b: a.gather(0, b.long()),
    "mse": lambda a, b: F.mse_loss(a, b),
    "conv": lambda a, b: F.conv2d(a[None, None], b[None, None]),
    "layer-norm": lambda a, b: F.layer_norm(a, (2,), b[0]),
    "foreach": lambda a, b: torch._foreach_add_([a], [b]),
    "equal": lambda a, b: torch.equal(a, b),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("order", ["tpu-cpu", "cpu-tpu"])
def test_cpu_and_tpu_do_not_mix(name, order):
    a, b = (torch.zeros(2, 2, device=device) for device in order.split("-"))
    with pytest.raises(RuntimeError, match=r"device|tpu"):
        MIXED[name](a, b)


def test_cpu_scalars_join():
    x = torch.arange(3.0, device="tpu")
    assert (x + torch.tensor(2.0)).cpu().tolist() == [2, 3, 4]
    assert (torch.tensor(2.0) * x).cpu().tolist() == [0, 2, 4]
    assert x[torch.tensor([2, 0])].cpu().tolist() == [2, 0]  # indices may be on the host


OVERLAPPING = {
    "mul_": lambda a: a[1:].mul_(a[:-1]),
    "copy_": lambda a: a[1:].copy_(a[:-1]),
    "out": lambda a: torch.add(a[:-1], 1, out=a[1:]),
    "addcmul_": lambda a: a[1:].addcmul_(a[1:], a[:-1]),
    "index_add_": lambda a: a.index_add_(0, torch.tensor([2, 1], device=a.device), a[:2]),
    "index_copy_": lambda a: a.index_copy_(0, torch.tensor([2, 1], device=a.device), a[:2]),
    "scatter_": lambda a: a.scatter_(0, torch.tensor([2, 1], device=a.device), a[:2]),
    "put_": lambda a: a.put_(torch.tensor([2, 1], device=a.device), a[:2]),
    "transposed": lambda a: a[:4].view(2, 2).mul_(a[:4].view(2, 2).t()),
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_reading_beside_what_is_written_is_refused(name):
    """As on the CPU; the same geometry over two storages is not, nor is an operand that is what is written."""
    for device in ("cpu", "tpu"):
        a = torch.ones(6, device=device)
        with pytest.raises(
            RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a"
        ):
            OVERLAPPING[name](a)
    a, b = torch.ones(6, device="tpu"), torch.ones(6, device="tpu")
    a[1:].mul_(b[:-1]).mul_(a[1:])
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        a[1:].mul_(a[:-1])
    a[3:].mul_(a[:3])
    a[1:].mul_(b[:-1])


TOO_LARGE = {
    "full": lambda **kw: torch.full((2,), 1e300, **kw),
    "fill_": lambda **kw: torch.zeros(2, **kw).fill_(1e300),
    "fill_ of bytes": lambda **kw: torch.zeros(2, dtype=torch.uint8, **kw).fill_(256),
    "masked_fill": lambda **kw: torch.zeros(2, **kw).masked_fill(torch.ones(2, dtype=torch.bool, **kw), 1e300),
    "index_fill": lambda **kw: torch.zeros(2, **kw).index_fill(0, torch.tensor([0], **kw), 1e300),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_number_too_large_for_its_type_is_refused(name):
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError, match=r"value cannot be converted to type .* without overflow"):
            TOO_LARGE[name](device=device)
    assert torch.full((1,), float("inf"), device="tpu").isinf().item()
    assert torch.full((1,), 1e300, device="tpu", dtype=torch.float64).item() == 1e300
    assert torch.zeros(1, dtype=torch.uint8, device="tpu").fill_(-1).item() == 255


def test_two_devices_do_not_mix():
    code = """
        import torch
        a, b = torch.zeros(2, 2, device="tpu:0"), torch.ones(2, 2, device="tpu:1")
        for call in (lambda: a + b, lambda: b @ a, lambda: a.add_(b), lambda: torch.cat([a, b]),
                     lambda: torch.add(a, a, out=b), lambda: torch._foreach_add_([a], [b])):
            try:
                call()
                raise SystemExit("not refused")
            except RuntimeError as error:
                assert "Expected all tensors to be on the same device" in str(error), error
                assert "tpu:0" in str(error) and "tpu:1" in str(error), error
        a.copy_(b)  # a copy may cross
        assert (a + b.to("tpu:0")).cpu().tolist() == [[2, 2], [2, 2]]
        assert (a.to("tpu:1") + b).device == b.device
        print("ok")
    """
    assert run(code, TORCHTPU_PJRT="cpu", TORCHTPU_CPU_DEVICES="2") == "ok"


def test_unknown_device_index():
    code = """
        import torch
        for make in (lambda: torch.ones(1, device="tpu:9"), lambda: torch.ones(1).to("tpu:9"),
                     lambda: torch.tpu.set_device(9), lambda: torch.ones(1, device="tpu").to("tpu:8"),
                     lambda: torch.Generator("tpu:9")):
            try:
                make()
                raise SystemExit("not refused")
            except RuntimeError as error:
                assert "invalid device ordinal: expected a tpu index below 8, found" in str(error), error
                assert "TORCHTPU_CPU_DEVICES" in str(error)
        print(torch.ones(1, device="tpu:7").device)
    """
    assert run(code, TORCHTPU_PJRT="cpu", TORCHTPU_CPU_DEVICES="8") == "tpu:7"


def test_unsupported_dtypes():
    for dtype in (torch.complex32, torch.bits8):
        with pytest.raises(TypeError, match=r"ComplexHalf|Bits8"):
            torch.empty(2, dtype=dtype, device="tpu")
        with pytest.raises(TypeError, match=r"ComplexHalf|Bits8"):
            torch.empty(2, dtype=dtype).to("tpu")
    with pytest.raises(NotImplementedError):
        torch.empty(2, dtype=torch.quint8, device="tpu")
    with pytest.raises((TypeError, RuntimeError)):
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8).to("tpu")


@pytest.fixture
def limited() -> Iterator[int]:
    """256 MiB may be allocated."""
    total = torch.tpu.mem_get_info()[1]
    gc.collect()
    assert torch.tpu.memory_allocated() < 1 << 20
    torch.tpu.set_per_process_memory_fraction((256 << 20) / total)
    yield 256 << 20
    torch.tpu.set_per_process_memory_fraction(1)


def test_out_of_memory(limited):
    held = [torch.ones(1024, 1024, 16, device="tpu")]  # 64 MiB
    small = torch.ones(3, 1024, 1024, dtype=torch.uint8, device="tpu")
    unwritten = torch.empty(16 << 20, dtype=torch.uint8, device="tpu")
    for make in (
        lambda: torch.empty(limited, device="tpu"),  # of four bytes each
        lambda: torch.zeros(64, 1024, 4096, device="tpu"),
        lambda: held[0].repeat(16, 1, 1),
        lambda: held[0].expand(16, 1024, 1024, 16) + 1,
        lambda: held[0].expand(16, 1024, 1024, 16).contiguous(),
        lambda: torch.ones(limited).to("tpu"),
    ):
        with pytest.raises(torch.OutOfMemoryError) as caught:
            make()
        message = str(caught.value)
        assert "Tried to allocate 1 GiB on tpu:0" in message
        assert "of 256 MiB are in use" in message
        assert "The largest live tensors: 64 MiB f32[1024, 1024, 16], 16 MiB not yet written, 3 MiB ui8[" in message
    assert small.sum().item() == 3 << 20 and unwritten.shape == (16 << 20,)
    held.clear()
    assert torch.zeros(40, 1024, 1024, device="tpu").sum().item() == 0


def test_out_of_memory_keeps_tensors_and_figures(limited):
    x = torch.ones(1000, device="tpu")
    before = torch.tpu.memory_allocated()
    for _ in range(3):
        with pytest.raises(torch.OutOfMemoryError):
            x.resize_(limited)
        with pytest.raises(torch.OutOfMemoryError):
            torch.add(x.expand(1 << 20, 1000), 1, out=torch.empty(0, device="tpu"))
    assert torch.tpu.memory_allocated() == before
    assert x.shape == (1000,) and x.sum().item() == 1000


def test_out_of_memory_in_the_backward_pass(limited):
    w = torch.ones(1024, 1024, device="tpu", requires_grad=True)
    y = w.expand(128, 1024, 1024).sum()  # its gradient is an expanded one; the product's is not
    y.backward()
    assert w.grad[0, 0].item() == 128
    with pytest.raises(torch.OutOfMemoryError):
        w.expand(128, 1024, 1024).exp().sum().backward()
    w.grad = None
    w.sum().backward()
    assert w.grad[0, 0].item() == 1


def test_huge_sizes():
    for size in ((1 << 62,), (1 << 40, 1 << 40), (1 << 33, 1 << 10)):
        with pytest.raises(RuntimeError):  # OutOfMemoryError is one
            torch.empty(size, device="tpu")
        with pytest.raises(RuntimeError):
            torch.ones(1, device="tpu").expand(size) + 1
    assert torch.ones(1, device="tpu").expand(1 << 40).shape == (1 << 40,)  # nothing is allocated
    assert torch.empty(0, 1 << 40, device="tpu").numel() == 0


NUMBERS = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -2.5, 3.4e38, 1e-30]
ON_NUMBERS: dict[str, Callable[[torch.Tensor], object]] = {
    "max": lambda x: x.max(),
    "min-dim": lambda x: x.view(3, 3).min(1),
    "argmax": lambda x: x.argmax(),
    "argmin": lambda x: x[1:].argmin(),
    "sort": lambda x: x.sort(),
    "topk": lambda x: x.topk(4),
    "sum": lambda x: (x.sum(), x.nansum(), x[3:7].sum()),
    "mean": lambda x: x.nanmean(),
    "maximum": lambda x: (torch.maximum(x, x.flip(0)), torch.fmax(x, x.flip(0))),
    "clamp": lambda x: x.clamp(-1, 1),
    "relu": lambda x: (F.relu(x), F.hardtanh(x), F.leaky_relu(x)),
    "nan-to-num": lambda x: torch.nan_to_num(x, 7.0),
    "isnan": lambda x: (x.isnan(), x.isinf(), x.isfinite(), x.signbit(), x.sign()),
    "compare": lambda x: (x == x, x != x, x < x.flip(0), x >= x.flip(0)),
    "softmax": lambda x: (x[2:].softmax(0), x.softmax(0), x[2:].log_softmax(0)),
    "logsumexp": lambda x: (x[2:].logsumexp(0), x[1:2].logsumexp(0), x[2:3].logsumexp(0)),
    "cummax": lambda x: x.cummax(0),
    "divide": lambda x: (x / 0.0, 1.0 / x, x // 2, x % 2, torch.fmod(x, 0.0)),
    "cast-bool": lambda x: x.bool(),
    "pow": lambda x: (x**0, x**0.5, torch.pow(2.0, x)),
    "unary": lambda x: (x.exp(), x.log(), x.sqrt(), x.rsqrt(), x.tanh(), x.sigmoid(), x.floor(), x.round(), x.atan()),
    "allclose": lambda x: (torch.isclose(x, x, equal_nan=True), torch.allclose(x, x, equal_nan=True)),
    "median": lambda x: (x.median(), x.nanmedian()),
    "matmul": lambda x: x.view(3, 3) @ torch.ones(3, 3, device=x.device),
    "unique": lambda x: x[1:7].unique(),
    "half": lambda x: (x.half(), x.bfloat16()),
    "where": lambda x: torch.where(x.isnan(), torch.zeros_like(x), x),
}


@pytest.mark.parametrize("name", ON_NUMBERS)
def test_nan_and_infinity(name):
    x = torch.tensor(NUMBERS)
    expected = ON_NUMBERS[name](x)
    found = ON_NUMBERS[name](x.to("tpu"))
    same(found, expected)


def same(found: object, expected: object) -> None:
    if isinstance(expected, tuple):
        assert isinstance(found, tuple)
        for f, e in zip(found, expected, strict=True):
            same(f, e)
    elif isinstance(expected, torch.Tensor):
        assert isinstance(found, torch.Tensor)
        torch.testing.assert_close(found.cpu(), expected, equal_nan=True, check_stride=False)
    else:
        assert found == expected


EMPTY: dict[str, Callable[[Callable[..., torch.Tensor]], object]] = {
    "add": lambda t: (t(0) + 1, t(0, 3) * t(1, 3), t() + t()),
    "sum": lambda t: (t(0).sum(), t(0, 3).sum(0), t(3, 0).sum(1), t().sum(), t().sum(0), t(0).prod()),
    "mean": lambda t: (t(0).mean(), t(0, 3).mean(0), t(0).std()),
    "any": lambda t: (t(0).any(), t(0).all()),
    "matmul": lambda t: (t(0, 3) @ t(3, 2), t(2, 0) @ t(0, 3), t(0, 2, 3) @ t(0, 3, 4), t(0) @ t(0)),
    "addmm": lambda t: torch.addmm(t(2, 3) + 1, t(2, 0), t(0, 3)),
    "cat": lambda t: (torch.cat([t(0), t(2)]), torch.cat([t(2, 0), t(2, 3)], 1), torch.stack([t(), t()])),
    "view": lambda t: (t(0, 3).view(3, 0), t().view(1, 1), t(1).view(()), t(0).reshape(0, 5)),
    "index": lambda t: (
        t(3)[:0],
        t(0, 3)[:, 1],
        t()[None],
        t(3)[t(0, dtype=torch.int64)],
        t(0)[t(0, dtype=torch.bool)],
    ),
    "nonzero": lambda t: (t().nonzero(), t(0, 3).nonzero(), t(0).masked_select(t(0, dtype=torch.bool))),
    "softmax": lambda t: (t(0, 3).softmax(1), t(3, 0).softmax(1), t().softmax(0)),
    "sort": lambda t: (t(0).sort(), t().sort(), t(0, 3).topk(2), t().topk(1)),
    "cumsum": lambda t: (t(0).cumsum(0), t().cumsum(0), t(0, 3).cummax(0)),
    "gather": lambda t: (t(3).gather(0, t(0, dtype=torch.int64)), t().gather(0, t(dtype=torch.int64))),
    "scatter": lambda t: (
        t(3).scatter(0, t(0, dtype=torch.int64), t(0)),
        t().scatter(0, t(dtype=torch.int64), 5.0),
        t(3).index_add(0, t(0, dtype=torch.int64), t(0)),
    ),
    "embedding": lambda t: F.embedding(t(0, 2, dtype=torch.int64), t(3, 4)),
    "conv": lambda t: F.conv2d(t(0, 3, 5, 5), t(2, 3, 3, 3)),
    "linear": lambda t: (F.linear(t(0, 3), t(2, 3), t(2)), F.linear(t(3), t(2, 3))),
    "layer-norm": lambda t: F.layer_norm(t(0, 3), (3,)),
    "loss": lambda t: (F.mse_loss(t(0), t(0)), F.cross_entropy(t(0, 3), t(0, dtype=torch.int64), reduction="sum")),
    "in-place": lambda t: (t(0).add_(1), t(0, 3).zero_(), t().add_(1), t().mul_(t()), t(3)[1:1].fill_(2)),
    "unique": lambda t: (t(0).unique(), t().unique(), t(0, dtype=torch.int64).bincount()),
    "item": lambda t: (t().item(), t(1, 1, 1).item(), t(0).tolist(), t().tolist()),
    "foreach": lambda t: torch._foreach_add((t(0), t(), t(2)), 1),
    "chunk": lambda t: (t(0, 3).chunk(2), t(3, 0).split(2), t(0, 2).unbind(1), t(0, 3).t()),
    "arange": lambda t: (torch.arange(0, device=t(1).device), torch.linspace(0, 1, 0, device=t(1).device)),
    "flip": lambda t: (t(0).flip(0), t(0, 2).roll(1, 0), t().flip(()), t(0).repeat(3), t().repeat(2)),
    "attention": lambda t: F.scaled_dot_product_attention(t(0, 2, 3, 4), t(0, 2, 3, 4), t(0, 2, 3, 4)),
    "copy": lambda t: (t(0).clone(), t().clone(), t(0).to(torch.int32), t(0, 3).contiguous(), t(2, 0).t().contiguous()),
    "norm": lambda t: (t(0).norm(), t().norm(), torch.linalg.vector_norm(t(0))),
    "interpolate": lambda t: F.pad(t(0, 1, 2, 2), (1, 1, 1, 1)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_and_zero_dim(name):
    same(EMPTY[name](on("tpu")), EMPTY[name](on("cpu")))


def test_gradients_of_empty_tensors():
    for shape in ((0,), (0, 3), ()):
        found, expected = [], []
        for device, into in (("tpu", found), ("cpu", expected)):
            x = torch.ones(shape, device=device, requires_grad=True)
            (x.exp() * 2).sum().backward()
            into.append(x.grad.cpu())
        assert torch.equal(found[0].shape == expected[0].shape and found[0], expected[0]) or found[0].numel() == 1
        torch.testing.assert_close(found, expected)


def test_fork_after_use():
    """Everything that a child does with the device says so; nothing hangs, dropping tensors included."""
    code = """
        import gc, os, torch
        x, big = torch.ones(2, device="tpu"), torch.ones(1000, device="tpu")
        y = x + 1  # may be pending at the fork
        with torch.no_grad():
            w = torch.ones(3, device="tpu", requires_grad=True)
        if (child := os.fork()) == 0:
            refused = 0
            for use in (lambda: torch.ones(2, device="tpu"), lambda: x + 1, lambda: x.add_(1), lambda: y.cpu(),
                        lambda: x.sum().item(), lambda: x.copy_(torch.zeros(2)), lambda: big.copy_(torch.zeros(1000)),
                        lambda: x.cpu(), lambda: print(x), torch.tpu.synchronize, lambda: x.resize_(5),
                        lambda: torch.ones(1000).to("tpu"), lambda: (w * 2).sum().backward()):
                try:
                    use()
                except RuntimeError as error:
                    assert "'spawn' start method" in str(error), error
                    refused += 1
            assert torch.ones(2).add(1).sum() == 4
            del x, y, big, w
            gc.collect()
            print(refused, flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        assert y.cpu().tolist() == [2, 2] and (x + big[:2]).cpu().tolist() == [2, 2]
    """
    assert run(code, TORCHTPU_PJRT="cpu") == "13"


def test_a_forked_child_may_exit_normally():
    code = """
        import multiprocessing, torch
        x = torch.ones(2, device="tpu")
        def work(i):
            return torch.full((2,), i).sum().item()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(pool.map(work, range(4)), x.sum().item())
    """
    assert run(code, TORCHTPU_PJRT="cpu") == "[0, 2, 4, 6] 2.0"


def test_exception_in_a_hook():
    model = torch.nn.Linear(3, 3).to("tpu")
    x = torch.ones(2, 3, device="tpu", requires_grad=True)

    def fail(*_: object) -> None:
        raise LookupError("from the hook")

    for register in (
        lambda: model.register_forward_hook(fail),
        lambda: model.register_forward_pre_hook(fail),
        lambda: model.register_full_backward_hook(fail),
        lambda: model.weight.register_hook(fail),
        lambda: model.weight.register_post_accumulate_grad_hook(fail),
    ):
        handle = register()
        with pytest.raises(LookupError, match="from the hook"):
            model(x).sum().backward()
        handle.remove()
        model.zero_grad()
        model(x).sum().backward()
        assert model.bias.grad.cpu().tolist() == [2, 2, 2]
        model.zero_grad()


def start(code: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_interrupt_during_a_compilation():
    """Ctrl-C ends the wait at once, and the device works afterwards."""
    code = """
        import signal, time, torch
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell starts without it
        def slow(n, count=40):  # sorts take the compiler long
            return [torch.randn(7, n + i, device="tpu").sort(stable=True, dim=0).values.cumsum(1) for i in range(count)]
        torch.arange(2.0, device="tpu").cpu()
        slow(2, 1)  # imports what decompositions need: Python does not survive an interrupt inside an import
        try:
            print("compiling")
            results = slow(3)
            torch.tpu.synchronize()
            print("finished too soon")
        except KeyboardInterrupt:
            print("interrupted")
        print((torch.arange(3.0, device="tpu") + 1).cpu().tolist())
        torch.tpu.synchronize()
    """
    process = start(code, TORCHTPU_PJRT="cpu")
    try:
        assert process.stdout.readline() == "compiling\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - begin < 5
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert out == "[1.0, 2.0, 3.0]\n" and process.returncode == 0, err


def test_wrapper_without_storage_below_the_key_that_unwraps_it():
    keys = torch._C.DispatchKey
    below = torch._C.DispatchKeySet(keys.FuncTorchBatched)
    below |= torch._C.DispatchKeySet(keys.FuncTorchDynamicLayerFrontMode)
    below |= torch._C.DispatchKeySet(keys.FuncTorchDynamicLayerBackMode)

    def exp(x: torch.Tensor) -> torch.Tensor:
        with torch._C._ExcludeDispatchKeyGuard(below):
            return x.exp()

    with pytest.raises(NotImplementedError, match="found a wrapper without: FuncTorchBatched"):
        torch.func.vmap(exp)(torch.ones(3, 2, device="tpu"))


def test_exit_with_work_in_flight():
    code = """
        import torch
        x = torch.ones(600, 600, device="tpu")
        for _ in range(100):
            x = (x @ x) / 600
        print("queued", flush=True)
    """
    process = start(code, TORCHTPU_PJRT="cpu")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "queued\n"), err


def test_exit_does_not_wait_for_a_long_compilation(tmp_path):
    """A program with hundreds of results takes the plugin's compiler seconds."""
    code = """
        import torch, torchtpu
        torchtpu.set_mode("fuse")
        x = torch.ones(64, device="tpu")
        for i in range(3):
            kept = [(x * 1.5 + k).sin().cos() for k in range(400)]
            kept[-1].sum().item()
        print("done", flush=True)
        raise SystemExit(3)
    """
    settings = {"TORCHTPU_CACHE_DIR": str(tmp_path), "TORCHTPU_EXIT_SECONDS": "0"}
    process = start(code, TORCHTPU_PJRT="cpu", **settings)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (3, "done\n"), err


def test_work_after_the_shutdown_at_exit_is_refused():
    code = """
        import atexit
        @atexit.register  # before the import: it runs after the device's own
        def late():
            assert done.cpu().tolist() == [1, 1]  # what is there can still be read
            for use in (lambda: done + 1, lambda: torch.ones(2, device="tpu"), lambda: done.add_(1)):
                try:
                    use()
                    print("not refused")
                except RuntimeError as error:
                    print(error)
            torch.tpu.synchronize()
        import torch
        done = torch.ones(2, device="tpu") * 1
    """
    lines = run(code, TORCHTPU_PJRT="cpu").splitlines()
    assert len(lines) == 3 and all("shut down, as the interpreter is exiting" in line for line in lines), lines


def test_threads_share_a_device():
    """Eight threads run random ops, misses and hits alike; each gets its own results."""
    problems: list[BaseException] = []
    gate = threading.Barrier(8)

    def work(seed: int) -> None:
        try:
            generator = torch.Generator().manual_seed(seed)
            gate.wait()
            for _ in range(25):
                n = int(torch.randint(1, 6, (), generator=generator))
                a = torch.rand(n, n, generator=generator)
                steps = torch.randint(0, 6, (6,), generator=generator).tolist()
                same(program(a.to("tpu"), steps), program(a, steps))
        except BaseException as error:
            problems.append(error)
            gate.abort()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def program(a: torch.Tensor, steps: list[int]) -> torch.Tensor:
    x = a.clone()
    for step in steps:
        if step == 0:
            x = x @ a
        elif step == 1:
            x[0] += 1
        elif step == 2:
            x = F.silu(x).t()
        elif step == 3:
            x = torch.cat([x, a])[-a.size(0) :]
        elif step == 4:
            w = x.detach().clone().requires_grad_()
            F.layer_norm(w, (a.size(1),)).square().sum().backward()
            x = x + w.grad.clamp(-1, 1) * 0
        else:
            x = x.softmax(-1)
    return x


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("bogus", ["TORCHTPU_PJRT=bogus", "expected auto, cpu, tpu, cuda or the path", "Set it"]),
        ("/no/such/plugin.so", ["TORCHTPU_PJRT=/no/such/plugin.so", "found no such file"]),
        ("tpu", ["TORCHTPU_PJRT=tpu: expected a TPU", "Set TORCHTPU_PJRT=cpu"]),
        ("not a plugin", ["TORCHTPU_PJRT", "Set"]),
        ("no api", ["GetPjrtApi"]),
    ],
)
def test_plugin_that_cannot_be_used(setting, says, tmp_path):
    if setting == "tpu" and os.path.exists("/dev/accel0"):
        pytest.skip("there is a TPU")
    if setting == "not a plugin":
        path = tmp_path / "plugin.so"
        path.write_text("not a library")
        setting = str(path)
    elif setting == "no api":
        setting = torch._C.__file__
    code = """
        import time, torch
        assert torch.ones(2).sum() == 2  # importing and the CPU are not affected
        begin = time.monotonic()
        for use in (lambda: torch.ones(2, device="tpu"), lambda: torch.ones(2).to("tpu"), torch.tpu.init):
            try:
                use()
                raise SystemExit("not refused")
            except RuntimeError as error:
                print(error)
        assert not torch.tpu.is_available() and torch.tpu.device_count() == 0
        assert time.monotonic() - begin < 5
    """
    output = run(code, TORCHTPU_PJRT=setting)
    for text in says:
        assert text in output, output
