// Ops whose result's shape depends on data: a fixed-size program, one count read by the host, a cut to the count.
#include <ATen/ScalarOps.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/masked_scatter_backward.h>
#include <ATen/ops/nonzero_static.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>

#include "aten/tensor.h"

namespace tpu::aten {
namespace {

at::Tensor Nonzero(const at::Tensor& self) {
  const int64_t count = at::count_nonzero(self).item<int64_t>();
  return at::nonzero_static(self, self.numel()).narrow(0, 0, count);
}

// The elements of `values` where `mask` is true, in order.
at::Tensor Compact(const at::Tensor& values, const at::Tensor& mask, int64_t count) {
  return at::masked_scatter_backward(values, mask, {values.numel()}).narrow(0, 0, count);
}

at::Tensor MaskedSelect(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == c10::ScalarType::Bool, "masked_select: expected BoolTensor for mask");
  const std::vector<int64_t> sizes = hlo::BroadcastDims(self.sizes().vec(), mask.sizes().vec());
  const at::Tensor m = mask.expand(sizes);
  return Compact(self.expand(sizes), m, m.sum().item<int64_t>());
}

using UniqueResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Runs of equal neighbours in `sorted` (1-D); `order` maps its positions back to the original ones.
UniqueResult Runs(const at::Tensor& sorted, const at::Tensor& order, c10::IntArrayRef sizes, bool return_inverse,
                  bool return_counts) {
  const auto longs = sorted.options().dtype(c10::ScalarType::Long);
  const int64_t n = sorted.numel();
  if (n == 0) return {sorted, at::empty(return_inverse ? sizes : c10::IntArrayRef({0}), longs), at::empty({0}, longs)};
  const at::Tensor first = at::cat({at::ones({1}, sorted.options().dtype(c10::ScalarType::Bool)),
                                    sorted.narrow(0, 1, n - 1).ne(sorted.narrow(0, 0, n - 1))});
  const at::Tensor run = at::cumsum(first, 0) - 1;
  const int64_t count = run[n - 1].item<int64_t>() + 1;
  at::Tensor inverse = at::empty({0}, longs), counts = at::empty({0}, longs);
  if (return_inverse)
    inverse = order.defined() ? at::empty({n}, longs).scatter_(0, order, run).view(sizes) : run.view(sizes);
  if (return_counts) counts = at::zeros({n}, longs).scatter_add_(0, run, at::ones({n}, longs)).narrow(0, 0, count);
  return {Compact(sorted, first, count), inverse, counts};
}

UniqueResult Unique2(const at::Tensor& self, bool /*sorted*/, bool return_inverse, bool return_counts) {
  const at::Tensor flat = self.reshape({-1});
  const bool is_bool = flat.scalar_type() == c10::ScalarType::Bool;
  auto [sorted, order] = at::sort(is_bool ? flat.to(c10::ScalarType::Byte) : flat, /*stable=*/true, 0, false);
  auto [values, inverse, counts] = Runs(sorted, order, self.sizes(), return_inverse, return_counts);
  return {is_bool ? values.to(c10::ScalarType::Bool) : values, inverse, counts};
}

std::tuple<at::Tensor, at::Tensor> Unique(const at::Tensor& self, bool sorted, bool return_inverse) {
  auto [values, inverse, counts] = Unique2(self, sorted, return_inverse, false);
  return {values, inverse};
}

UniqueResult UniqueConsecutive(const at::Tensor& self, bool return_inverse, bool return_counts,
                               std::optional<int64_t> dim) {
  if (!dim || self.dim() <= 1)
    return Runs(self.reshape({-1}), at::Tensor(), self.sizes(), return_inverse, return_counts);
  // Rows along `dim`: equal where all their elements are.
  const at::Tensor rows = self.movedim(*dim, 0);
  const auto longs = self.options().dtype(c10::ScalarType::Long);
  const int64_t n = rows.size(0);
  TORCH_CHECK(self.numel() > 0,
              "unique_consecutive: expected a tensor with elements when dim is given, found one of shape ",
              self.sizes());
  const at::Tensor differs = rows.narrow(0, 1, n - 1).ne(rows.narrow(0, 0, n - 1)).reshape({n - 1, -1}).any(1);
  const at::Tensor first = at::cat({at::ones({1}, differs.options()), differs});
  const at::Tensor run = at::cumsum(first, 0) - 1;
  const int64_t count = run[n - 1].item<int64_t>() + 1;
  const at::Tensor starts = at::nonzero_static(first, n).select(1, 0).narrow(0, 0, count);
  at::Tensor counts = at::empty({0}, longs);
  if (return_counts) counts = at::zeros({n}, longs).scatter_add_(0, run, at::ones({n}, longs)).narrow(0, 0, count);
  return {self.index_select(*dim, starts), return_inverse ? run : at::empty({0}, longs), counts};
}

// Rows in lexicographic order (stable sorts from the last column to the first), then runs of equal ones.
UniqueResult UniqueDim(const at::Tensor& self, int64_t dim, bool /*sorted*/, bool return_inverse, bool return_counts) {
  if (self.size(dim) == 0) {
    const auto sizes = self.sizes();
    TORCH_CHECK(std::count(sizes.begin(), sizes.end(), 0) == 1,
                "Number of zero sized dimensions is more than one, so unique cannot be applied ");
    const at::Tensor none = at::empty({0}, self.options().dtype(c10::ScalarType::Long));
    return {at::empty_like(self), none, none.clone()};
  }
  TORCH_CHECK(self.numel() > 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  const at::Tensor rows = self.movedim(dim, 0).reshape({self.size(dim), -1});
  at::Tensor order = at::arange(rows.size(0), self.options().dtype(c10::ScalarType::Long));
  for (int64_t column = rows.size(1) - 1; column >= 0; --column) {
    at::Tensor keys = rows.select(1, column).index_select(0, order);
    if (keys.scalar_type() == c10::ScalarType::Bool) keys = keys.to(c10::ScalarType::Byte);
    order = order.index_select(0, std::get<1>(at::sort(keys, /*stable=*/true, 0, false)));
  }
  auto [values, run, counts] = UniqueConsecutive(self.index_select(dim, order), true, return_counts, dim);
  const at::Tensor inverse =
      return_inverse ? at::empty_like(run).scatter_(0, order, run) : at::empty({0}, run.options());
  return {values, inverse, counts};
}

at::Tensor RepeatInterleave(const at::Tensor& repeats, std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == c10::ScalarType::Long || repeats.scalar_type() == c10::ScalarType::Int,
              "repeats has to be Long or Int tensor");
  if (repeats.numel() == 0) return at::empty_like(repeats);
  const at::Tensor ends = at::cumsum(repeats, 0);
  const int64_t total = output_size ? *output_size : ends[-1].item<int64_t>();
  const at::Tensor places = at::arange(total, ends.options());
  return at::searchsorted(ends, places, /*out_int32=*/false, /*right=*/true).to(repeats.scalar_type());
}

at::Tensor Bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, int64_t minlength) {
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  TORCH_CHECK(self.dim() == 1, "bincount only supports 1-d non-negative integral inputs.");
  const bool weighted = weights && weights->defined();
  TORCH_CHECK(!weighted || weights->sizes() == self.sizes(), "weights should be 1-d and have the same length as input");
  const auto dtype = !weighted                                          ? c10::ScalarType::Long
                     : weights->scalar_type() == c10::ScalarType::Float ? c10::ScalarType::Float
                                                                        : c10::ScalarType::Double;
  const auto options = self.options().dtype(dtype);
  if (self.numel() == 0) return at::zeros({minlength}, self.options().dtype(c10::ScalarType::Long));
  TORCH_CHECK(self.min().item<int64_t>() >= 0, "bincount only supports 1-d non-negative integral inputs.");
  const int64_t bins = std::max(self.max().item<int64_t>() + 1, minlength);
  const at::Tensor amounts = weighted ? weights->to(dtype) : at::ones({self.numel()}, options);
  return at::zeros({bins}, options).scatter_add_(0, self.to(c10::ScalarType::Long), amounts);
}

bool Equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ", self.device(), " and ",
              other.device(), "! (when checking arguments of equal)");
  if (self.sizes() != other.sizes()) return false;
  return self.numel() == 0 || self.eq(other).all().item<bool>();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", &Nonzero);
  m.impl("masked_select", &MaskedSelect);
  m.impl("_unique", &Unique);
  m.impl("_unique2", &Unique2);
  m.impl("unique_consecutive", &UniqueConsecutive);
  m.impl("unique_dim", &UniqueDim);
  m.impl("unique_dim_consecutive", [](const at::Tensor& self, int64_t dim, bool inverse, bool counts) {
    return UniqueConsecutive(self, inverse, counts, dim);
  });
  m.impl("repeat_interleave.Tensor", &RepeatInterleave);
  m.impl("bincount", &Bincount);
  m.impl("equal", &Equal);
}

}  // namespace
}  // namespace tpu::aten
