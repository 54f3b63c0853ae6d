"""linear and matmul as one op each: results and gradients, first and second, as on the CPU.

Where something looks inside them it sees the parts.
"""

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

LINEAR = [
    ((3, 4), (5, 4), (5,)),
    ((2, 3, 4), (5, 4), (5,)),
    ((2, 3, 4), (5, 4), None),
    ((4,), (5, 4), (5,)),
    ((3, 4), (4,), None),
    ((4,), (4,), None),
    ((2, 0, 4), (5, 4), (5,)),
]
MATMUL = [
    ((4,), (4,)),
    ((3, 4), (4,)),
    ((4,), (4, 5)),
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)),
    ((1, 3, 4), (6, 4, 5)),
    ((2, 1, 3, 4), (1, 6, 4, 5)),
]
CASES = [(F.linear, shapes) for shapes in LINEAR] + [(torch.matmul, shapes) for shapes in MATMUL]


def twice_differentiated(op, values, device):
    inputs = [None if v is None else v.to(device).requires_grad_() for v in values]
    wanted = [x for x in inputs if x is not None]
    result = op(*inputs)
    upstream = torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(device, result.dtype)
    first = torch.autograd.grad(result, wanted, upstream, create_graph=True)
    energy = sum((g.abs() ** 2).sum() for g in first)
    second = torch.autograd.grad(energy, wanted, allow_unused=True, materialize_grads=True)
    return [x.cpu() for x in (result, *first, *second)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
@pytest.mark.parametrize(("op", "shapes"), CASES, ids=lambda x: getattr(x, "__name__", str(x)))
def test_products_and_their_gradients_match_cpu(op, shapes, dtype):
    torch.manual_seed(0)
    values = [None if s is None else torch.randn(s, dtype=dtype) for s in shapes]
    found, expected = (twice_differentiated(op, values, device) for device in ("tpu", "cpu"))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("op", "shapes"), CASES, ids=lambda x: getattr(x, "__name__", str(x)))
def test_bfloat16_rounds_once(op, shapes):
    torch.manual_seed(0)
    values = [None if s is None else torch.randn(s).bfloat16() for s in shapes]
    inputs = [None if v is None else v.to("tpu").requires_grad_() for v in values]
    exact = [None if v is None else v.double().requires_grad_() for v in values]
    found, expected = op(*inputs), op(*exact)
    upstream = torch.ones_like(expected)
    torch.testing.assert_close(found.cpu(), expected.bfloat16(), rtol=2**-8, atol=1e-6)
    found.backward(upstream.bfloat16().to("tpu"))
    expected.backward(upstream)
    for x, y in zip(inputs, exact, strict=True):
        if x is not None:
            torch.testing.assert_close(x.grad.cpu(), y.grad.bfloat16(), rtol=2**-7, atol=1e-6)


def test_a_linear_layer_is_one_node_of_the_graph():
    layer = torch.nn.Linear(4, 5, device="tpu")
    y = layer(torch.ones(2, 3, 4, device="tpu"))
    assert y.grad_fn.name() == "LinearBackward0"
    assert {node.name() for node, _ in y.grad_fn.next_functions if node} == {"torch::autograd::AccumulateGrad"}


class Names(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func._schema.name)
        return func(*args, **(kwargs or {}))


def test_a_dispatch_mode_sees_the_parts_as_on_other_devices():
    seen = {}
    for device in ("cpu", "tpu"):
        x, w = torch.ones(2, 3, 4, device=device), torch.ones(5, 4, device=device, requires_grad=True)
        with Names() as names:
            (F.linear(x, w) @ w).sum().backward()
        seen[device] = [name for name in names.seen if "mm" in name]
    assert seen["tpu"] == seen["cpu"] != []
    with FlopCounterMode(display=False) as flops:
        F.linear(torch.ones(3, 4, device="tpu"), torch.ones(5, 4, device="tpu"))
    assert flops.get_total_flops() == 2 * 3 * 4 * 5


def test_function_transforms_and_forward_mode_go_through_the_parts():
    torch.manual_seed(0)
    x, w = torch.randn(3, 4), torch.randn(5, 4)

    def transformed(device):
        a, b = x.to(device), w.to(device)
        layer = lambda v: F.linear(v, b)  # noqa: E731
        energy = lambda v: ((v @ b.T) ** 3).sum()  # noqa: E731
        jacobian = torch.autograd.functional.jacobian
        hessian = torch.autograd.functional.hessian
        return [
            torch.func.jvp(layer, (a,), (a,))[1],
            torch.func.vmap(layer)(a),
            torch.func.jacrev(layer)(a),
            torch.func.hessian(energy)(a),
            jacobian(layer, a, vectorize=True),
            hessian(energy, a, vectorize=True),
        ]

    found = [t.cpu() for t in transformed("tpu")]
    torch.testing.assert_close(found, transformed("cpu"), rtol=1e-4, atol=1e-4)


def test_shapes_that_do_not_fit_are_refused_and_the_device_goes_on():
    x = torch.ones(3, 4, device="tpu")
    for bad in (lambda: x[0, 0] @ x, lambda: F.linear(x, x.double())):
        with pytest.raises(RuntimeError):
            bad()
    assert (x @ x.T).sum().item() == 36


@pytest.mark.parametrize(
    "bad",
    [
        lambda x: torch.mm(x, x),
        lambda x: x @ x,
        lambda x: F.linear(x, x[:, :3]),
        lambda x: F.linear(x[None], x[:, :3], x[0]),
        lambda x: F.linear(x[None], x, x[0]),
        lambda x: torch.addmm(x, x, x),
        lambda x: torch.addmm(x, x, x.T),
        lambda x: torch.bmm(x[None], x[None]),
        lambda x: x[None] @ x[None],
    ],
)
def test_shape_errors_read_as_on_the_cpu(bad):
    messages = []
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError) as error:
            bad(torch.ones(3, 4, device=device))
        messages.append(str(error.value))
    assert messages[0] == messages[1]
