// index and index_put with boolean masks and host indices: brought to integer indices on the device, then the generic kernel.
#include <ATen/ops/nonzero.h>
#include <torch/library.h>

#include "aten/kernel.h"
#include "aten/tensor.h"

namespace tpu::aten {
namespace {

using Indices = c10::List<std::optional<at::Tensor>>;
using torch::jit::Stack;

bool IsMask(const at::Tensor& t) {
  return t.scalar_type() == c10::ScalarType::Bool || t.scalar_type() == c10::ScalarType::Byte;
}

Indices ToIntegers(const at::Tensor& self, const Indices& indices) {
  Indices result;
  int64_t dim = 0;
  TORCH_CHECK_INDEX(static_cast<int64_t>(indices.size()) <= self.dim(), "too many indices for tensor of dimension ",
                    self.dim(), " (got ", indices.size(), ")");
  for (const auto& element : indices) {
    const std::optional<at::Tensor> index = element;
    if (!index || !index->defined()) {
      result.push_back(std::nullopt);
      ++dim;
      continue;
    }
    at::Tensor t = IsTpu(*index) ? *index : index->to(self.device());
    if (!IsMask(t)) {
      TORCH_CHECK_INDEX(t.scalar_type() == c10::ScalarType::Long || t.scalar_type() == c10::ScalarType::Int,
                        "tensors used as indices must be long, int, byte or bool tensors");
      result.push_back(t);
      ++dim;
      continue;
    }
    for (int64_t i = 0; i < t.dim(); ++i) {
      TORCH_CHECK_INDEX(dim + i < self.dim() && t.size(i) == self.size(dim + i), "The shape of the mask ", t.sizes(),
                        " at index ", i, " does not match the shape of the indexed tensor ", self.sizes(), " at index ",
                        dim + i);
    }
    const at::Tensor where = at::nonzero(t);
    for (int64_t i = 0; i < t.dim(); ++i) result.push_back(where.select(1, i));
    dim += t.dim();
  }
  return result;
}

// self[mask] = one value: a select, with no host read.
bool PutByMask(at::Tensor& self, const Indices& indices, const at::Tensor& values, bool accumulate) {
  if (accumulate || values.numel() != 1 || indices.size() != 1) return false;
  const std::optional<at::Tensor> mask = indices.get(0);
  if (!mask || !mask->defined() || !IsMask(*mask) || mask->dim() > self.dim() || !IsTpu(*mask)) return false;
  if (mask->sizes() != self.sizes().slice(0, mask->dim())) return false;
  std::vector<int64_t> sizes = mask->sizes().vec();
  sizes.resize(self.dim(), 1);
  self.masked_fill_(mask->to(c10::ScalarType::Bool).view(sizes), values.reshape({}));
  return true;
}

at::Tensor Index(const at::Tensor& self, const Indices& indices) {
  Stack stack{self, ToIntegers(self, indices)};
  CallKernel("aten::index", "Tensor", &stack);
  return stack.back().toTensor();
}

at::Tensor& IndexPutImpl_(at::Tensor& self, const Indices& indices, const at::Tensor& values, bool accumulate,
                          bool unsafe) {
  TORCH_CHECK_INDEX(self.scalar_type() == values.scalar_type() || values.dim() == 0,
                    "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
                    " for the destination and ", values.scalar_type(), " for the source.");
  if (PutByMask(self, indices, values, accumulate)) return self;
  const at::Tensor source = IsTpu(values) ? values : values.to(self.device());
  Stack stack{self, ToIntegers(self, indices), source.to(self.scalar_type()), accumulate, unsafe};
  CallKernel("aten::_index_put_impl_", "", &stack);
  return self;
}

at::Tensor& IndexPut_(at::Tensor& self, const Indices& indices, const at::Tensor& values, bool accumulate) {
  return IndexPutImpl_(self, indices, values, accumulate, false);
}

at::Tensor IndexPut(const at::Tensor& self, const Indices& indices, const at::Tensor& values, bool accumulate) {
  at::Tensor result = self.clone();
  return IndexPut_(result, indices, values, accumulate);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("index.Tensor", &Index);
  m.impl("_unsafe_index.Tensor", &Index);
  m.impl("index_put_", &IndexPut_);
  m.impl("index_put", &IndexPut);
  m.impl("_index_put_impl_", &IndexPutImpl_);
}

}  // namespace
}  // namespace tpu::aten
