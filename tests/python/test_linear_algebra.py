"""Factorizations whose samples in OpInfo are too kind: indefinite matrices, complex eigenvalues, stacks."""

import pytest
import torch

import torchtpu

SIZES = [(1,), (2,), (3,), (7,), (3, 5), (2, 2, 12)]
DTYPES = [torch.float64, torch.complex128]


def matrix(*size, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*size, size[-1], generator=generator, dtype=dtype)


def by_value(values):
    """In an order that rounding does not change; conjugate pairs are kept apart."""
    return torch.stack(sorted(values, key=lambda z: (round(z.real.item(), 6), round(z.imag.item(), 6))))


@pytest.fixture(autouse=True)
def all_on_the_device():
    yield
    assert torchtpu.fallbacks() == {}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_eigenvalues_and_vectors(size, dtype):
    a = matrix(*size, dtype=dtype)
    values, vectors = torch.linalg.eig(a.to("tpu"))
    values, vectors = values.cpu(), vectors.cpu()
    wide = a.to(torch.complex128)
    torch.testing.assert_close(wide @ vectors, vectors * values.unsqueeze(-2), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(vectors.norm(dim=-2), torch.ones(values.shape, dtype=torch.float64))
    torch.testing.assert_close(torch.linalg.eigvals(a.to("tpu")).cpu(), values, rtol=1e-9, atol=1e-9)
    rows = values.reshape(-1, size[-1])
    for ours, theirs in zip(rows, torch.linalg.eigvals(a).reshape(-1, size[-1]), strict=True):
        torch.testing.assert_close(by_value(ours), by_value(theirs), rtol=1e-9, atol=1e-9)
    if not dtype.is_complex:  # as LAPACK says it: pairs side by side, the one with the positive imaginary part first
        for row in rows:
            places = (row.imag != 0).nonzero().flatten()
            first, second = row[places[::2]], row[places[1::2]]
            assert torch.equal(first, second.conj()) and (first.imag > 0).all()


@pytest.mark.parametrize(
    "a",
    [
        torch.zeros(4, 4),
        torch.eye(5),
        torch.diag(torch.tensor([3.0, -1, 3, 0, 2])),
        torch.tensor([[0.0, 1], [-1, 0]]),
        torch.tensor([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]]),
        torch.ones(6, 6),
        torch.triu(torch.ones(4, 4)),
        torch.diag(torch.ones(4), 1),
        1e30 * torch.tensor([[1.0, 2], [3, 4]]),
        1e-30 * torch.tensor([[1.0, 2, 0], [3, 4, 1], [1, 1, 1]]),
    ],
)
def test_eigenvalues_of_special_matrices(a):
    """Among them a cyclic one, whose eigenvalues no plain shift moves, and defective ones."""
    a = a.double()
    values = torch.linalg.eigvals(a.to("tpu")).cpu()
    scale = a.abs().max().clamp_min(1e-300)
    # A Jordan block of size n answers a change of the order of eps by its n-th root.
    atol = 1e-3 if torch.linalg.matrix_rank(torch.linalg.eig(a)[1]) < len(a) else 1e-7
    torch.testing.assert_close(by_value(values / scale), by_value(torch.linalg.eigvals(a) / scale), rtol=0, atol=atol)


def test_eigenvalues_of_what_is_not_finite():
    a = torch.eye(3).repeat(2, 1, 1)
    a[1, 0, 1] = float("nan")
    values = torch.linalg.eigvals(a.to("tpu")).cpu()
    assert torch.equal(values[0], torch.ones(3, dtype=torch.complex64)) and values[1].isnan().all()


def test_eigenvalues_have_gradients():
    a = matrix(5)
    results = []
    for device in ("cpu", "tpu"):
        leaf = a.to(device).detach().requires_grad_()
        values, vectors = torch.linalg.eig(leaf)
        (values.abs().sum() + (vectors.abs() ** 4).sum()).backward()
        results.append(leaf.grad.cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("dtype", "hermitian"), [(torch.float64, False), (torch.complex128, False), (torch.complex128, True)]
)
@pytest.mark.parametrize("size", SIZES)
def test_ldl_is_lapacks(size, dtype, hermitian):
    """Factors and pivots alike, for indefinite matrices: blocks of two, exchanges."""
    a = matrix(*size, dtype=dtype)
    a = a + (a.mH if hermitian else a.mT)
    a.diagonal(dim1=-2, dim2=-1)[..., ::2] *= 0.01  # so that pivots are wanted
    factors, pivots, info = torch.linalg.ldl_factor_ex(a.to("tpu"), hermitian=hermitian)
    expected = torch.linalg.ldl_factor_ex(a, hermitian=hermitian)
    torch.testing.assert_close(factors.cpu(), expected.LD, rtol=1e-9, atol=1e-9)
    assert torch.equal(pivots.cpu(), expected.pivots) and torch.equal(info.cpu(), expected.info)
    y = matrix(*size, dtype=dtype, seed=1)[..., :2]
    x = torch.linalg.ldl_solve(factors, pivots, y.to("tpu"), hermitian=hermitian).cpu()
    torch.testing.assert_close(a @ x, y, rtol=1e-8, atol=1e-8)


def test_ldl_of_a_singular_matrix_says_where():
    a = torch.diag(torch.tensor([1.0, 0, 2]))
    assert torch.linalg.ldl_factor_ex(a.to("tpu")).info.item() == torch.linalg.ldl_factor_ex(a).info.item() == 2
