"""PyTorch's OpInfo database against the CPU.

Here one sample of every operation in float32. `make sweep` (TORCHTPU_SWEEP=full) runs all types of data and float32's
gradients, with more samples. `opinfo_gaps.json` says what does not pass yet ("operation type kind") and why; it may
only shrink, and what passes has to leave it.
"""

import os

import coverage_page
import opinfo
import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

FULL = os.environ.get("TORCHTPU_SWEEP") == "full"
SAMPLES = 3
TYPES = ["float32", "bfloat16", "float16", "float64", "complex64", "int64", "int32", "int8", "uint8", "bool"]
GAPS = coverage_page.gaps()
OPS = {op.full_name: op for op in op_db}
del OPS["as_strided.partial_views"]  # reads storage around its input, which a copy has not
CASES = [
    f"{name} {type_name} {kind}"
    for kind in ("forward", "gradient")
    for type_name in TYPES
    for name, op in OPS.items()
    if getattr(torch, type_name) in op.supported_dtypes("cpu")
    and (kind == "forward" or (type_name == "float32" and op.supports_autograd))
]


def test_gaps_name_cases():
    assert not GAPS.keys() - set(CASES)


def test_the_page_of_gaps_is_current():
    now = "Run `python tests/python/coverage_page.py` after a change of opinfo_gaps.json."
    assert coverage_page.PAGE.read_text() == coverage_page.page(CASES, GAPS), now


@pytest.mark.parametrize("case", CASES if FULL else [c for c in CASES if c.endswith(" float32 forward")])
@pytest.mark.filterwarnings("ignore")
def test_agrees_with_cpu(case: str):
    name, type_name, kind = case.split()
    samples = SAMPLES if FULL or case in GAPS else 1
    try:
        opinfo.check(OPS[name], getattr(torch, type_name), samples, kind == "gradient")
    except opinfo.NothingToCompare:
        pytest.skip("the CPU runs none of the samples")
    except Exception:
        if case in GAPS:
            pytest.xfail(GAPS[case])
        raise
    assert case not in GAPS, "passes: take it out of opinfo_gaps.json"
