// Compressed sparse rows on the device. As in sparse.cc, all is dense operations on indices and values.
#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h>
#include <torch/library.h>

#include "aten/sparse.h"

namespace tpu::aten {
namespace {

using at::Scalar;
using at::Tensor;

// Of each element, its row and its column.
struct Coordinates {
  Tensor rows, columns;
};

Coordinates CoordinatesOf(const Tensor& csr) {
  const Tensor both = at::_convert_indices_from_csr_to_coo(csr.crow_indices(), csr.col_indices());
  return {both[0], both[1]};
}

void CheckMatrix(const Tensor& csr, const char* op) {
  TORCH_CHECK_NOT_IMPLEMENTED(csr.layout() == at::kSparseCsr && csr.dim() == 2 && csr.dense_dim() == 0, op,
                              ": expected a sparse CSR matrix on tpu, found layout ", csr.layout(), " and ", csr.dim(),
                              " dimensions. Use to_dense().");
}

Tensor WithValues(const Tensor& csr, const Tensor& values) {
  return at::_sparse_csr_tensor_unsafe(csr.crow_indices(), csr.col_indices(), values, csr.sizes(),
                                       csr.options().dtype(values.scalar_type()));
}

// (a b)[rows, columns].
Tensor SampledProduct(const Tensor& a, const Tensor& b, const Coordinates& at_places) {
  return (a.index_select(0, at_places.rows) * b.index_select(1, at_places.columns).t()).sum(1);
}

Tensor SampledAddmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  CheckMatrix(self, "sampled_addmm");
  TORCH_CHECK(
      a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0) && a.size(0) == self.size(0) && b.size(1) == self.size(1),
      "sampled_addmm: expected [m, k] x [k, n] for a mask of ", self.sizes(), ", found ", a.sizes(), " and ",
      b.sizes());
  Tensor values = SampledProduct(a, b, CoordinatesOf(self)) * alpha;
  if (!beta.equal(0)) values = values + self.values() * beta;
  return WithValues(self, values);
}

Tensor Mm(const Tensor& self, const Tensor& other) {
  if (self.layout() == at::kStrided) return at::mm(self, other.to_dense());
  CheckMatrix(self, "mm");
  if (other.layout() != at::kStrided) return at::mm(self, other.to_dense()).to_sparse_csr();
  const Coordinates places = CoordinatesOf(self);
  const Tensor products = self.values().unsqueeze(1) * other.index_select(0, places.columns);
  return at::zeros({self.size(0), other.size(1)}, other.options()).index_add(0, places.rows, products);
}

Tensor SparseMask(const Tensor& self, const Tensor& mask) {
  if (self.layout() != at::kStrided) return SparseMask(self.to_dense(), mask);
  CheckMatrix(mask, "sparse_mask");
  const Coordinates places = CoordinatesOf(mask);
  c10::List<std::optional<Tensor>> index;
  index.push_back(places.rows);
  index.push_back(places.columns);
  return WithValues(mask, at::index(self, index));
}

// --- reductions of a row's products

bool IsExtreme(std::string_view reduce) { return reduce == "amax" || reduce == "amin"; }

Tensor Counts(const Tensor& csr) { return at::diff(csr.crow_indices()).clamp_min(1).unsqueeze(1); }

// {result [m, n], for a maximum or minimum the element it comes from, nnz where a row has none}
std::tuple<Tensor, Tensor> MmReduce(const Tensor& self, const Tensor& other, std::string_view reduce) {
  CheckMatrix(self, "sparse.mm");
  const Coordinates places = CoordinatesOf(self);
  const int64_t count = self._nnz();
  const Tensor products = self.values().unsqueeze(1) * other.index_select(0, places.columns);
  Tensor out = at::zeros({self.size(0), other.size(1)}, other.options());
  Tensor source = at::empty({0}, places.columns.options());
  if (count == 0) return {out, source};
  if (!IsExtreme(reduce)) {
    TORCH_CHECK(reduce == "sum" || reduce == "mean", "sparse.mm: expected reduce sum, mean, amax or amin, found ",
                reduce);
    out = out.index_add(0, places.rows, products);
    return {reduce == "mean" ? out / Counts(self) : out, source};
  }
  out = at::index_reduce(out, 0, places.rows, products, reduce, /*include_self=*/false);
  // The first element of the row that gave the result.
  const Tensor order = at::arange(count, places.rows.options()).unsqueeze(1);
  const Tensor from = at::where(products == out.index_select(0, places.rows), order, count);
  source = at::full(out.sizes(), count, order.options()).index_reduce(0, places.rows, from, "amin");
  return {out, source};
}

std::tuple<Tensor, Tensor> MmReduceBackward(const Tensor& self, const Tensor& grad, const Tensor& other,
                                            std::string_view reduce, const Tensor& source,
                                            std::array<bool, 2> output_mask) {
  CheckMatrix(self, "sparse.mm");
  const Coordinates places = CoordinatesOf(self);
  // What each element's product gets: [nnz, n].
  Tensor each = (reduce == "mean" ? grad / Counts(self) : grad).index_select(0, places.rows);
  if (IsExtreme(reduce) && self._nnz() > 0) {
    const Tensor order = at::arange(self._nnz(), places.rows.options()).unsqueeze(1);
    each = at::where(source.index_select(0, places.rows) == order, each, 0);
  }
  Tensor to_self, to_other;
  if (output_mask[0]) to_self = WithValues(self, (each * other.index_select(0, places.columns)).sum(1));
  if (output_mask[1]) {
    to_other = at::zeros_like(other).index_add(0, places.columns, each * self.values().unsqueeze(1));
  }
  return {to_self, to_other};
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("empty.memory_format", &at::native::empty_sparse_compressed_symint);
  m.impl("empty_like", &at::native::empty_like_sparse_csr);
  m.impl("sparse_dim", &at::native::sparse_dim_sparse_csr);
  m.impl("dense_dim", &at::native::dense_dim_sparse_csr);
  m.impl("_nnz", &at::native::_nnz_sparse_csr);
  m.impl("values", &at::native::values_sparse_csr);
  m.impl("crow_indices", &at::native::crow_indices_sparse_csr);
  m.impl("col_indices", &at::native::col_indices_sparse_csr);
  m.impl("ccol_indices", &at::native::ccol_indices_sparse_csr);
  m.impl("row_indices", &at::native::row_indices_sparse_csr);
  m.impl("clone", &at::native::clone_sparse_compressed);
  m.impl("zero_", &at::native::zero_sparse_csr_);
  m.impl("copy_", &at::native::copy_sparse_compressed_);
  m.impl("_to_dense", &at::native::sparse_compressed_to_dense);
  m.impl("_to_sparse", static_cast<ToSparseLayout>(&at::native::sparse_compressed_to_sparse));
  m.impl("_to_sparse.sparse_dim", static_cast<ToSparseDims>(&at::native::sparse_compressed_to_sparse));
  m.impl("_to_sparse_csr", &at::native::sparse_compressed_to_sparse_csr);
  m.impl("sparse_sampled_addmm", &SampledAddmm);
  m.impl("mm", &Mm);
  m.impl("addmm", &SparseAddMm);
  m.impl("sparse_mask", &SparseMask);
  m.impl("_sparse_mm_reduce_impl", &MmReduce);
  m.impl("_sparse_mm_reduce_impl_backward", &MmReduceBackward);
}

}  // namespace
}  // namespace tpu::aten
