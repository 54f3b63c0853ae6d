"""Sparse tensors on the device: COO and CSR, made, read, added, multiplied, differentiated."""

import pytest
import torch

import torchtpu


@pytest.fixture(autouse=True)
def all_on_the_device():
    yield
    assert torchtpu.fallbacks() == {}


def sparse_matrix(rows=5, columns=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, columns, generator=generator)
    return torch.where(torch.rand(rows, columns, generator=generator) < 0.4, x, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int64, torch.bool])
@pytest.mark.parametrize("sparse_dim", [1, 2])
def test_there_and_back(dtype, sparse_dim):
    x = sparse_matrix().to(dtype)
    s = x.to("tpu").to_sparse(sparse_dim)
    expected = x.to_sparse(sparse_dim)
    assert s.is_sparse and s.device.type == "tpu" and s._nnz() == expected._nnz()
    assert torch.equal(s.indices().cpu(), expected.indices()) and torch.equal(s.values().cpu(), expected.values())
    assert torch.equal(s.to_dense().cpu(), x)
    assert torch.equal(s.cpu().to_dense(), x) and torch.equal(expected.to("tpu").to_dense().cpu(), x)


def test_coalesce_adds_up():
    indices, values = torch.tensor([[1, 0, 1, 1], [2, 0, 2, 0]]), torch.tensor([1.0, 2, 3, 4])
    s = torch.sparse_coo_tensor(indices, values, (2, 3))
    ours, theirs = s.to("tpu").coalesce(), s.coalesce()
    assert ours.is_coalesced()
    assert torch.equal(ours.indices().cpu(), theirs.indices()) and torch.equal(ours.values().cpu(), theirs.values())


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_products(layout):
    a, b, c = sparse_matrix(), sparse_matrix(4, 3, seed=1), sparse_matrix(5, 3, seed=2)
    s = getattr(a.to("tpu"), layout)()
    torch.testing.assert_close((s @ b.to("tpu")).cpu(), a @ b)
    torch.testing.assert_close(torch.addmm(c.to("tpu"), s, b.to("tpu"), beta=2, alpha=3).cpu(), 2 * c + 3 * (a @ b))


def test_arithmetic():
    a, b = sparse_matrix(), sparse_matrix(seed=1)
    s, t, dense = a.to("tpu").to_sparse(), b.to("tpu").to_sparse(), b.to("tpu")
    torch.testing.assert_close((s + t).to_dense().cpu(), a + b)
    torch.testing.assert_close(torch.add(dense, s, alpha=2).cpu(), b + 2 * a)
    torch.testing.assert_close((s * 3).to_dense().cpu(), a * 3)
    torch.testing.assert_close((s * t).to_dense().cpu(), a * b)
    torch.testing.assert_close(s.neg().sin().to_dense().cpu(), a.neg().sin())
    torch.testing.assert_close(torch.sparse.sum(s).cpu(), a.sum())


def test_gradient_of_a_sparse_product():
    a, b = sparse_matrix(), sparse_matrix(4, 3, seed=1)
    results = []
    for device in ("cpu", "tpu"):
        s, dense = a.to_sparse().to(device), b.to(device)
        s, dense = (x.detach().requires_grad_() for x in (s, dense))
        torch.sparse.mm(s, dense).square().sum().backward()
        results.append((s.grad.to_dense().cpu(), dense.grad.cpu()))
    for ours, theirs in zip(*reversed(results), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_an_embedding_with_sparse_gradients_trains():
    results = []
    for device in ("cpu", "tpu"):
        torch.manual_seed(0)
        layer = torch.nn.Embedding(6, 3, sparse=True).to(device)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
        for _ in range(2):
            optimizer.zero_grad()
            layer(torch.tensor([1, 4, 1], device=device)).square().sum().backward()
            assert layer.weight.grad.is_sparse
            optimizer.step()
        results.append(layer.weight.detach().cpu())
    torch.testing.assert_close(results[1], results[0])
