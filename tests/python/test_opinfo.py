"""PyTorch's OpInfo database in float32 against the CPU: a few samples of every operation.

An answer passes when it agrees with the CPU's by torch.testing's tolerances, or is no farther from the float64 answer
than twice the CPU's float32 one is. `opinfo_expected_failures.txt` lists what does not pass yet; it may only shrink.
`make sweep` is the wider check: all dtypes, more samples, gradients.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_map

import torchtpu

DEVICE = torch.device("tpu")
SAMPLES = 2
SEED = 3
OPS = {op.full_name: op for op in op_db if torch.float32 in op.supported_dtypes("cpu")}
del OPS["as_strided.partial_views"]  # reads storage around its input, which a copy has not
EXPECTED_FAILURES = set((Path(__file__).parent / "opinfo_expected_failures.txt").read_text().split())


def test_list_names_operations():
    assert not EXPECTED_FAILURES - OPS.keys()


@pytest.mark.parametrize("name", OPS)
@pytest.mark.filterwarnings("ignore")
def test_agrees_with_cpu(name):
    try:
        check(OPS[name])
    except Exception as error:
        if name in EXPECTED_FAILURES and not isinstance(error, pytest.skip.Exception):
            pytest.xfail(str(error).partition("\n")[0])
        raise
    assert name not in EXPECTED_FAILURES, "passes: take it off opinfo_expected_failures.txt"


def check(op: OpInfo) -> None:
    torch.manual_seed(SEED)
    checked = 0
    for sample in op.sample_inputs("cpu", torch.float32):
        try:
            cpu = run(op, sample, lambda x: x.clone())
        except Exception:  # not this sample, then
            continue
        got = run(op, sample, to_device)
        if not same(cpu, run(op, sample, lambda x: x.clone(), seed=SEED + 1)):
            cpu = None if op.name.startswith(("empty", "new_empty")) else tree_map(shape_only, cpu)
            got = None if cpu is None else tree_map(shape_only, got)
        compare(op, sample, got, cpu)
        checked += 1
        if checked == SAMPLES:
            break
    if not checked:
        pytest.skip("the CPU runs none of the samples")
    assert torchtpu.fallbacks() == {}


def run(op: OpInfo, sample: SampleInput, move: Callable[[torch.Tensor], torch.Tensor], seed: int = SEED) -> Any:
    def copy(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return move(x)
        return DEVICE if move is to_device and is_device(x) and str(x) == "cpu" else x

    input, args, kwargs = tree_map(copy, (sample.input, sample.args, sample.kwargs), is_leaf=is_device)
    torch.manual_seed(seed)
    with torch.no_grad():
        return sample.output_process_fn_grad(op(input, *args, **kwargs))


def is_device(x: Any) -> bool:
    return isinstance(x, str | torch.device)


def to_device(x: torch.Tensor) -> torch.Tensor:
    return x.detach().to(DEVICE)


def to_double(x: torch.Tensor) -> torch.Tensor:
    wider = {torch.float32: torch.float64, torch.complex64: torch.complex128}
    return x.detach().to(wider.get(x.dtype, x.dtype), copy=True)


def shape_only(x: Any) -> Any:
    """Of a random result no more can be compared."""
    return torch.empty(x.shape, dtype=x.dtype, device="meta") if isinstance(x, torch.Tensor) else None


def same(a: Any, b: Any) -> bool:
    try:
        torch.testing.assert_close(tree_flatten(a)[0], tree_flatten(b)[0], rtol=0, atol=0, equal_nan=True)
    except (AssertionError, TypeError, ValueError):
        return False
    return True


def compare(op: OpInfo, sample: SampleInput, got: Any, cpu: Any) -> None:
    got, cpu = tree_flatten(got)[0], tree_flatten(cpu)[0]
    assert len(got) == len(cpu)
    double: list[Any] | None = None
    for i, (g, c) in enumerate(zip(got, cpu, strict=True)):
        if not isinstance(c, torch.Tensor):
            torch.testing.assert_close(g, c, equal_nan=True)
            continue
        assert g.shape == c.shape and g.dtype == c.dtype, f"{g.dtype}{list(g.shape)}, the CPU {c.dtype}{list(c.shape)}"
        if c.is_meta:
            continue
        assert g.device.type == DEVICE.type, f"the result is on {g.device}"
        g = g.detach().cpu()
        try:
            torch.testing.assert_close(g, c, equal_nan=True, check_stride=False)
        except AssertionError:
            if not (c.is_floating_point() or c.is_complex()):
                raise
            if double is None:
                double = double_answer(op, sample)
            if double is None or not no_worse(g, c, double[i]):
                raise


def double_answer(op: OpInfo, sample: SampleInput) -> list[Any] | None:
    try:
        with warnings.catch_warnings():
            return tree_flatten(run(op, sample, to_double))[0]
    except Exception:
        return None


def no_worse(got: torch.Tensor, cpu: torch.Tensor, double: torch.Tensor) -> bool:
    """The largest error is at most twice the CPU's, and one unit in the last place of the largest answer."""
    double = double.to(torch.complex128 if got.is_complex() else torch.float64)
    finite = double.isfinite()
    if not torch.equal(got.isfinite(), finite) or not finite.any():
        return False
    error, cpu_error = (got - double)[finite].abs().max(), (cpu - double)[finite].abs().max()
    return bool(error <= 2 * cpu_error + torch.finfo(got.dtype).eps * double[finite].abs().max())
