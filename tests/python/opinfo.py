"""Runs a sample of PyTorch's OpInfo database on the device and on the CPU, and compares.

An answer passes when it agrees with the CPU's by torch.testing's tolerances, or with the float64 answer, or is no
farther from that than twice the CPU's is and one unit in the last place. Of a random or uninitialised result, shape and
type count.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

import torchtpu

DEVICE = torch.device("tpu")
SEED = 3
UNINITIALISED = ("empty", "new_empty")
# These take some tensors on the host only, whatever the device of the first.
HOST_ARGUMENTS = {"tensor_split"}
# These say where they found elements, and which of equal ones is anyone's choice: the result, the place of `dim`.
INDICES = {"argsort": (0, 0), "sort": (1, 0), "topk": (1, 1), "kthvalue": (1, 1), "median": (1, 0), "nanmedian": (1, 0)}
INDICES["mode"] = (1, 0)
WIDER = {
    torch.bfloat16: torch.float64,
    torch.float16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def call_unseeded(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs)


# Random operators' entries set a seed of their own before each call; here the seed is `Run`'s.
common_methods_invocations.wrapper_set_seed.__code__ = call_unseeded.__code__


class NothingToCompare(Exception):
    """The CPU runs none of the samples."""


def check(op: OpInfo, dtype: torch.dtype, samples: int, grad: bool = False) -> None:
    """Raises for the first sample, of `samples` that the CPU can run, that the device answers otherwise."""
    torch.manual_seed(SEED)
    checked = 0
    for sample in op.sample_inputs("cpu", dtype, requires_grad=grad):
        try:
            cpu = Run(op, sample, copy_of, grad).results
        except Exception:  # not this sample, then
            continue
        if not cpu:
            continue
        try:
            compare(op, sample, grad, cpu)
        except Exception as error:
            error.add_note(f"{'gradient of ' if grad else ''}{op.full_name}, {sample.summary()[:400]}")
            raise
        checked += 1
        if checked == samples:
            break
    if not checked:
        raise NothingToCompare
    assert torchtpu.fallbacks() == {}


@dataclass
class Run:
    """One call of an operator on what `move` makes of the sample's tensors."""

    op: OpInfo
    sample: SampleInput
    move: Callable[[torch.Tensor], torch.Tensor]
    grad: bool
    seed: int = SEED

    @property
    def results(self) -> list[Any]:
        leaf = {"is_leaf": lambda x: isinstance(x, str | torch.device)}
        input = tree_map(self._move, self.sample.input, **leaf)
        host = self.op.name in HOST_ARGUMENTS
        rest = self.sample.args, self.sample.kwargs
        args, kwargs = rest if host else tree_map(self._move, rest, **leaf)
        torch.manual_seed(self.seed)
        with torch.set_grad_enabled(self.grad):
            results = self.sample.output_process_fn_grad(self.op(input, *args, **kwargs))
        return self._gradients(results, (input, args, kwargs)) if self.grad else tree_flatten(results)[0]

    def _move(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return self.move(x.detach()).requires_grad_(x.requires_grad)
        host = isinstance(x, str | torch.device) and str(x) == "cpu"
        return DEVICE if host and self.move is on_device else x

    def _gradients(self, results: Any, inputs: Any) -> list[Any]:
        outputs, wanted = (
            [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor) and x.requires_grad]
            for tree in (results, inputs)
        )
        if not outputs or not wanted:
            return []
        generator = torch.Generator().manual_seed(SEED)
        cotangents = []
        for x in outputs:
            wide = torch.randn(
                x.shape, generator=generator, dtype=torch.complex128 if x.is_complex() else torch.float64
            )
            cotangents.append(wide.to(x.dtype).to(x.device))
        return list(torch.autograd.grad(outputs, wanted, cotangents, allow_unused=True))


def copy_of(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def on_device(x: torch.Tensor) -> torch.Tensor:
    return x.to(DEVICE)


def wide(x: torch.Tensor) -> torch.Tensor:
    return x.to(WIDER.get(x.dtype, x.dtype), copy=True)


def same(a: list[Any], b: list[Any]) -> bool:
    try:
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
    except (AssertionError, TypeError, ValueError):
        return False
    return True


def compare(op: OpInfo, sample: SampleInput, grad: bool, cpu: list[Any]) -> None:
    got = Run(op, sample, on_device, grad).results
    assert len(got) == len(cpu), f"{len(got)} results, the CPU gives {len(cpu)}"
    for g, c in zip(got, cpu, strict=True):
        if not isinstance(c, torch.Tensor):
            continue
        assert isinstance(g, torch.Tensor), f"{g}, the CPU gives a tensor"
        assert g.shape == c.shape and g.dtype == c.dtype, f"{g.dtype}{list(g.shape)}, the CPU {c.dtype}{list(c.shape)}"
        assert g.device.type == DEVICE.type, f"the result is on {g.device}"
    if op.name.startswith(UNINITIALISED):
        return
    try:
        compare_values(op, sample, grad, got, cpu)
    except AssertionError:
        if not is_random(op, sample, grad, cpu):
            raise


def is_random(op: OpInfo, sample: SampleInput, grad: bool, cpu: list[Any]) -> bool:
    """Whether the seed changes the CPU's answer. A few seeds may give one number from a small range."""
    return not all(same(cpu, Run(op, sample, copy_of, grad, SEED + i).results) for i in range(1, 9))


def compare_values(op: OpInfo, sample: SampleInput, grad: bool, got: list[Any], cpu: list[Any]) -> None:
    reference: list[Any] | None = None
    for i, (g, c) in enumerate(zip(got, cpu, strict=True)):
        if not isinstance(c, torch.Tensor):
            assert g == c or (g != g and c != c), f"{g}, the CPU gives {c}"
            continue
        g, c = g.detach().cpu(), c.detach()
        if not grad and op.name in INDICES and i == INDICES[op.name][0]:
            g, c = found(op, sample, g), found(op, sample, c)
        try:
            torch.testing.assert_close(g, c, equal_nan=True, check_stride=False)
        except AssertionError:
            if not (c.is_floating_point() or c.is_complex()):
                raise
            reference = reference or wide_answer(op, sample, grad)
            if not reference or not no_worse(g, c, reference[i].detach()):
                raise


def found(op: OpInfo, sample: SampleInput, index: torch.Tensor) -> torch.Tensor:
    """The input's elements at `index`."""
    x, place = sample.input.detach(), INDICES[op.name][1]
    if x.dim() == 0:
        return index
    dim = sample.kwargs.get("dim", sample.args[place] if len(sample.args) > place else -1)
    return x.gather(dim, index if index.dim() == x.dim() else index.unsqueeze(dim))


def wide_answer(op: OpInfo, sample: SampleInput, grad: bool) -> list[Any] | None:
    try:
        return Run(op, sample, wide, grad).results
    except Exception:
        return None


def no_worse(got: torch.Tensor, cpu: torch.Tensor, reference: torch.Tensor) -> bool:
    """Agrees with `reference`; or the largest error is at most twice the CPU's, and one ulp of the largest answer."""
    with contextlib.suppress(AssertionError):
        torch.testing.assert_close(got, reference.to(got.dtype), equal_nan=True, check_stride=False)
        return True
    double = torch.complex128 if got.is_complex() else torch.float64
    exact, got, cpu, eps = reference.to(double), got.to(double), cpu.to(double), torch.finfo(got.dtype).eps
    finite = exact.isfinite()
    if not torch.equal(got.isfinite(), finite) or not torch.equal(cpu.isfinite(), finite) or not finite.any():
        return False
    error, cpu_error = (got - exact)[finite].abs().max(), (cpu - exact)[finite].abs().max()
    return bool(error <= 2 * cpu_error + eps * exact[finite].abs().max())
