// Sparse tensors, COO and CSR: PyTorch's containers over device tensors of indices and values. What an operation computes
// is written in dense operations on those, so no program here knows of sparsity.
#include "aten/sparse.h"

#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h>
#include <torch/library.h>

namespace tpu::aten {
namespace {

using at::Scalar;
using at::Tensor;

// --- COO

// Of each element of the sparse dimensions, its place in their row-major order.
Tensor FlatIndex(const Tensor& indices, c10::IntArrayRef sizes) {
  Tensor flat = at::zeros({indices.size(1)}, indices.options());
  for (int64_t d = 0; d < indices.size(0); ++d) flat = flat * sizes[d] + indices[d];
  return flat;
}

Tensor MakeCoo(const Tensor& indices, const Tensor& values, const Tensor& like, bool coalesced) {
  return at::_sparse_coo_tensor_with_dims_and_tensors(
      like.sparse_dim(), like.dense_dim(), like.sizes(), indices, values,
      like.options().dtype(values.scalar_type()).layout(at::kSparse), coalesced);
}

Tensor Coalesce(const Tensor& self) {
  if (self.is_coalesced()) return self;
  const Tensor indices = self._indices(), values = self._values();
  if (values.size(0) < 2) return MakeCoo(indices, values, self, true);
  const auto [places, inverse] =
      at::_unique(FlatIndex(indices, self.sizes()), /*sorted=*/true, /*return_inverse=*/true);
  std::vector<int64_t> sizes = values.sizes().vec();
  sizes[0] = places.size(0);
  const Tensor sums = at::zeros(sizes, values.options()).index_put_({inverse}, values, /*accumulate=*/true);
  std::vector<Tensor> rows(indices.size(0));
  Tensor rest = places;
  for (int64_t d = indices.size(0) - 1; d >= 0; --d) {
    rows[d] = at::remainder(rest, self.size(d));
    rest = at::floor_divide(rest, self.size(d));
  }
  const Tensor unique = rows.empty() ? indices.slice(1, 0, places.size(0)) : at::stack(rows);
  return MakeCoo(unique, sums, self, true);
}

c10::List<std::optional<Tensor>> Places(const Tensor& sparse) {
  c10::List<std::optional<Tensor>> places;
  for (const Tensor& row : sparse._indices().unbind(0)) places.push_back(row);
  return places;
}

// dense + alpha * sparse, in place.
Tensor& AddInto(Tensor& dense, const Tensor& sparse, const Scalar& alpha) {
  TORCH_CHECK(dense.sizes() == sparse.sizes(), "add: expected 'self' and 'other' to have same size, but self has size ",
              dense.sizes(), " while other has size ", sparse.sizes(),
              " (FYI: dense-sparse addition does not currently support broadcasting)");
  Tensor values = sparse._values().to(dense.scalar_type());
  if (values.numel() == 0) return dense;
  if (!alpha.equal(1)) values = values * alpha;
  if (sparse.sparse_dim() == 0) return dense.add_(values.sum(0));
  return dense.index_put_(Places(sparse), values, /*accumulate=*/true);
}

Tensor Add(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  const c10::ScalarType type = at::result_type(self, other);
  if (!self.is_sparse()) {
    Tensor dense = self.to(type, /*non_blocking=*/false, /*copy=*/true);
    return AddInto(dense, other, alpha);
  }
  TORCH_CHECK(other.is_sparse(), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  TORCH_CHECK(self.sizes() == other.sizes(), "add: expected sizes of 'self' and 'other' to match, but ", self.sizes(),
              " != ", other.sizes());
  TORCH_CHECK(self.sparse_dim() == other.sparse_dim(),
              "add: expected 'self' and 'other' to have same number of sparse "
              "dimensions, but self has ",
              self.sparse_dim(), " and other ", other.sparse_dim());
  const Tensor values = at::cat({self._values().to(type), other._values().to(type) * alpha});
  const Tensor sum = MakeCoo(at::cat({self._indices(), other._indices()}, 1), values, self, false);
  return self.is_coalesced() && other.is_coalesced() ? sum.coalesce() : sum;
}

// `self` becomes `result`.
Tensor& Become(Tensor& self, const Tensor& result) {
  return at::native::copy_sparse_(self, result.to(self.scalar_type()), /*non_blocking=*/false);
}

Tensor& Add_(Tensor& self, const Tensor& other, const Scalar& alpha) {
  return self.is_sparse() ? Become(self, Add(self, other, alpha)) : AddInto(self, other, alpha);
}

Tensor Multiply(const Tensor& self, const Tensor& other) {
  if (!self.is_sparse()) return Multiply(other, self);
  if (other.dim() == 0) {
    const Tensor number = other.is_sparse() ? other.to_dense() : other;
    return MakeCoo(self._indices(), self._values() * number, self, self.is_coalesced());
  }
  // Where `self` has no element the product has none either.
  const Tensor places = self.coalesce();
  const Tensor dense = other.is_sparse() ? other.to_dense() : other.expand(self.sizes());
  return MakeCoo(places._indices(), places._values() * at::index(dense, Places(places)), self, true);
}

Tensor Divide(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.is_sparse() && other.dim() == 0,
              "Sparse division requires a scalar or zero-dim dense tensor divisor");
  TORCH_CHECK(!other.is_sparse(), "Sparse division requires a dense divisor");
  return MakeCoo(self._indices(), self._values() / other, self, self.is_coalesced());
}

Tensor& Multiply_(Tensor& self, const Tensor& other) {
  return self.is_sparse() ? Become(self, Multiply(self, other)) : self.copy_(Multiply(self, other).to_dense());
}
Tensor& Divide_(Tensor& self, const Tensor& other) { return Become(self, Divide(self, other)); }

Tensor Mm(const Tensor& self, const Tensor& other) {
  if (!self.is_sparse()) return at::mm(other.t(), self.t()).t();
  const Tensor right = other.is_sparse() ? other.to_dense() : other;
  TORCH_CHECK(self.dim() == 2 && right.dim() == 2 && self.size(1) == right.size(0),
              "mm: expected matrices [m, k] and "
              "[k, n], found ",
              self.sizes(), " and ", other.sizes());
  const Tensor products = self._values().unsqueeze(1) * right.index_select(0, self._indices()[1]);
  const Tensor out = at::zeros({self.size(0), right.size(1)}, right.options());
  const Tensor product = out.index_add(0, self._indices()[0], products);
  return other.is_sparse() ? product.to_sparse() : product;
}

Tensor SparseMask(const Tensor& self, const Tensor& mask) {
  TORCH_CHECK(self.sizes() == mask.sizes(), "sparse_mask(): operands have incompatible sizes; self has size ",
              self.sizes(), " but mask has size ", mask.sizes());
  const Tensor dense = self.is_sparse() ? self.to_dense() : self;
  return MakeCoo(mask._indices().clone(), at::index(dense, Places(mask)), mask, mask.is_coalesced());
}

// f(0) = 0: the operation on the values.
void ApplyToValues(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Tensor self = torch::jit::pop(*stack).toTensor().coalesce();
  torch::jit::Stack call{self._values()};
  op.callBoxed(call);
  stack->emplace_back(MakeCoo(self._indices(), call.back().toTensor(), self, true));
}

constexpr const char* kKeepZero[] = {"abs",   "neg",   "sign",  "sgn",     "sqrt",    "sin",          "sinh",
                                     "tan",   "tanh",  "asin",  "asinh",   "atan",    "atanh",        "expm1",
                                     "log1p", "ceil",  "floor", "round",   "trunc",   "erf",          "erfinv",
                                     "relu",  "isnan", "isinf", "deg2rad", "rad2deg", "conj_physical"};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_to_sparse.sparse_dim", static_cast<ToSparseDims>(&at::native::dense_to_sparse));
  m.impl("_to_sparse", static_cast<ToSparseLayout>(&at::native::dense_to_sparse));
  m.impl("_to_sparse_csr", &at::native::dense_to_sparse_csr);
  m.impl("_to_sparse_csc", &at::native::dense_to_sparse_csc);
  m.impl("_to_sparse_bsr", &at::native::dense_to_sparse_bsr);
  m.impl("_to_sparse_bsc", &at::native::dense_to_sparse_bsc);
  m.impl("sparse_mask", &SparseMask);
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("empty.memory_format", &at::native::empty_sparse_symint);
  m.impl("empty_like", &at::native::empty_like_sparse_coo);
  m.impl("_sparse_coo_tensor_with_dims", &at::native::new_with_dims_sparse);
  m.impl("_sparse_coo_tensor_with_dims_and_tensors", &at::native::new_with_dims_and_tensor_sparse_symint);
  m.impl("sparse_dim", &at::native::sparse_dim_sparse);
  m.impl("dense_dim", &at::native::dense_dim_sparse);
  m.impl("_dimI", &at::native::sparse_dim_sparse);
  m.impl("_dimV", &at::native::dense_dim_sparse);
  m.impl("_nnz", &at::native::_nnz_sparse);
  m.impl("is_coalesced", &at::native::is_coalesced_sparse);
  m.impl("_coalesced_", &at::native::_coalesced_sparse_);
  m.impl("_indices", &at::native::_indices_sparse);
  m.impl("_values", &at::native::_values_sparse);
  m.impl("indices", &at::native::indices_sparse);
  m.impl("values", &at::native::values_sparse);
  m.impl("clone", &at::native::clone_sparse);
  m.impl("zero_", &at::native::zero_sparse_);
  m.impl("copy_", &at::native::copy_sparse_wrapper_);
  m.impl("copy_sparse_to_sparse_", &at::native::copy_sparse_);
  m.impl("sparse_resize_", &at::native::sparse_resize_);
  m.impl("sparse_resize_and_clear_", &at::native::sparse_resize_and_clear_);
  m.impl("resize_as_sparse_", &at::native::resize_as_sparse_);
  m.impl("_to_dense", &at::native::sparse_to_dense);
  m.impl("_to_sparse", static_cast<ToSparseLayout>(&at::native::sparse_coo_to_sparse));
  m.impl("_to_sparse_csr", &at::native::coo_to_sparse_csr);
  m.impl("_to_sparse_csc", &at::native::coo_to_sparse_csc);
  m.impl("view_as_real", &at::native::view_as_real_sparse);
  m.impl("view_as_complex", &at::native::view_as_complex_sparse);
  m.impl("_coalesce", &Coalesce);
  m.impl("add.Tensor", &Add);
  m.impl("add_.Tensor", &Add_);
  m.impl("mul.Tensor", &Multiply);
  m.impl("mul_.Tensor", &Multiply_);
  m.impl("div.Tensor", &Divide);
  m.impl("div_.Tensor", &Divide_);
  m.impl("mm", &Mm);
  m.impl("addmm", &SparseAddMm);
  m.impl("sparse_mask", &SparseMask);
  for (const char* name : kKeepZero) m.impl(name, torch::CppFunction::makeFromBoxedFunction<&ApplyToValues>());
}

}  // namespace

Tensor SparseAddMm(const Tensor& self, const Tensor& sparse, const Tensor& dense, const Scalar& beta,
                   const Scalar& alpha) {
  const Tensor product = at::mm(sparse, dense);
  return at::add(beta.equal(0) ? at::zeros_like(self) : self * beta, product, alpha);
}

}  // namespace tpu::aten
