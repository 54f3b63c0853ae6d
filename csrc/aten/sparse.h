// What both layouts of sparse tensors, COO (sparse.cc) and CSR (sparse_csr.cc), have in common.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace tpu::aten {

// Which of PyTorch's overloads of a conversion is meant.
using ToSparseDims = at::Tensor (*)(const at::Tensor&, int64_t);
using ToSparseLayout = at::Tensor (*)(const at::Tensor&, std::optional<c10::Layout>, at::OptionalIntArrayRef,
                                      std::optional<int64_t>);

// beta * self + alpha * (sparse @ dense); beta == 0 ignores self.
at::Tensor SparseAddMm(const at::Tensor& self, const at::Tensor& sparse, const at::Tensor& dense,
                       const at::Scalar& beta, const at::Scalar& alpha);

}  // namespace tpu::aten
