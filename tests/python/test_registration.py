"""Every lowering serves an operator that PyTorch has, and hides none that PyTorch composes of others."""

import pytest
import torch

from torchtpu import _C

SCHEMAS = {
    schema.name.removeprefix("aten::") + (f".{schema.overload_name}" if schema.overload_name else ""): schema
    for schema in torch._C._jit_get_all_schemas()
    if schema.name.startswith("aten::")
}


@pytest.mark.parametrize("name", _C._lowerings())
def test_lowering(name: str):
    assert name in SCHEMAS, f"the lowering of {name}: PyTorch {torch.__version__} has no such operator"
    implicit = torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CompositeImplicitAutograd")
    ours = torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "PrivateUse1")
    whole = "\nAutograd[alias]" in torch._C._dispatch_dump(
        f"aten::{name}"
    )  # autograd knows the derivative of the whole
    if implicit and not whole:
        assert not ours, "a composite operator needs no lowering"
    else:
        assert ours, "the lowering is not registered"
