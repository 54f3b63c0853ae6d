// index and index_put with boolean masks and host indices: brought to integer indices on the device, then the generic kernel.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/nonzero.h>
#include <torch/library.h>

#include <algorithm>

#include "aten/kernel.h"
#include "aten/tensor.h"

namespace tpu::aten {
namespace {

using Indices = c10::List<std::optional<at::Tensor>>;
using torch::jit::Stack;

bool CanBroadcast(c10::IntArrayRef a, c10::IntArrayRef b) {
  for (size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    const int64_t x = a[a.size() - i], y = b[b.size() - i];
    if (x != y && x != 1 && y != 1) return false;
  }
  return true;
}

bool IsMask(const at::Tensor& t) {
  return t.scalar_type() == c10::ScalarType::Bool || t.scalar_type() == c10::ScalarType::Byte;
}

void WarnOfBytes(const at::Tensor& mask) {
  if (mask.scalar_type() == c10::ScalarType::Byte)
    TORCH_WARN("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.");
}

bool IsIndex(c10::ScalarType type) {
  return type == c10::ScalarType::Long || type == c10::ScalarType::Int || type == c10::ScalarType::Byte ||
         type == c10::ScalarType::Bool;
}

Indices ToIntegers(const at::Tensor& self, const Indices& indices) {
  for (const std::optional<at::Tensor> index : indices) {
    if (!index || !index->defined()) continue;
    TORCH_CHECK(index->is_cpu() || index->device() == self.device(),
                "indices should be either on cpu or on the same device as the indexed tensor (", self.device(), ")");
    TORCH_CHECK_INDEX(IsIndex(index->scalar_type()), "tensors used as indices must be long, int, byte or bool tensors");
  }
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
      result.push_back(t);
      ++dim;
      continue;
    }
    WarnOfBytes(t);
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

// The sizes of self[indices], all of them integers. Raises for those that do not go together.
std::vector<int64_t> ResultSizes(const at::Tensor& self, const Indices& indices) {
  std::vector<int64_t> together, result;
  std::string shapes;
  int first = -1, last = -1;
  bool fit = true;
  for (int i = 0; i < static_cast<int>(indices.size()); ++i) {
    const std::optional<at::Tensor> index = indices.get(i);
    if (!index) continue;
    if (first < 0) first = i;
    last = i;
    shapes += c10::str(shapes.empty() ? "" : ", ", index->sizes());
    fit = fit && CanBroadcast(together, index->sizes());
    if (fit) together = at::infer_size(together, index->sizes());
  }
  TORCH_CHECK_INDEX(fit, "shape mismatch: indexing tensors could not be broadcast together with shapes ", shapes);
  bool adjacent = true;
  for (int i = first; i >= 0 && i < last; ++i) adjacent = adjacent && indices.get(i).has_value();
  if (!adjacent) result = together;
  for (int d = 0; d < self.dim(); ++d) {
    if (d == first && adjacent) result.insert(result.end(), together.begin(), together.end());
    const bool indexed = d < static_cast<int>(indices.size()) && indices.get(d).has_value();
    if (!indexed) result.push_back(self.size(d));
    TORCH_CHECK_INDEX(!indexed || self.size(d) > 0 || c10::multiply_integers(together) == 0,
                      "index is out of bounds for dimension with size 0");
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
  WarnOfBytes(*mask);
  self.masked_fill_(mask->to(c10::ScalarType::Bool).view(sizes), values.reshape({}));
  return true;
}

at::Tensor Index(const at::Tensor& self, const Indices& indices) {
  Indices integers = ToIntegers(self, indices);
  ResultSizes(self, integers);
  Stack stack{self, std::move(integers)};
  CallKernel("aten::index", "Tensor", &stack);
  return stack.back().toTensor();
}

at::Tensor& IndexPutImpl_(at::Tensor& self, const Indices& indices, const at::Tensor& values, bool accumulate,
                          bool unsafe) {
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    TORCH_WARN(
        "Use of index_put_ on expanded tensors is deprecated. Please clone() the tensor before performing this "
        "operation. "
        "This also applies to advanced indexing e.g. tensor[indices] = tensor");
  }
  if (PutByMask(self, indices, values, accumulate)) return self;
  at::assert_no_overlap(self, values);
  for (const std::optional<at::Tensor> index : indices) {
    if (index && index->defined()) at::assert_no_overlap(self, *index);
  }
  Indices integers = ToIntegers(self, indices);
  const std::vector<int64_t> sizes = ResultSizes(self, integers);
  TORCH_CHECK(at::is_expandable_to(values.sizes(), sizes), "shape mismatch: value tensor of shape ", values.sizes(),
              " cannot be broadcast to indexing result of shape ", c10::IntArrayRef(sizes));
  TORCH_CHECK_INDEX(self.scalar_type() == values.scalar_type() || values.dim() == 0,
                    "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
                    " for the destination and ", values.scalar_type(), " for the source.");
  const at::Tensor source = IsTpu(values) ? values : values.to(self.device());
  Stack stack{self, std::move(integers), source.to(self.scalar_type()), accumulate, unsafe};
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
