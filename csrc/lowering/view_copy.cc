// The *_copy ops: a view's elements as a new dense tensor. The views themselves are geometry and have no lowering.
#include <algorithm>

#include "hlo/view.h"
#include "lowering/indexing.h"

namespace tpu::lowering {
namespace {

Value Same(Builder& /*b*/, Value x) { return x; }
LOWER("alias_copy", Same, kExact);
LOWER("detach_copy", Same, kExact);
LOWER("lift_fresh_copy", Same, kExact);

// Any copy whose shape says it all.
Value ToExpectedShape(Builder& b, Value x) { return b.Reshape(x, b.Expected().dims); }
Value ViewCopy(Builder& b, Value x, Ints /*size*/) { return ToExpectedShape(b, x); }
Value SqueezeCopy(Builder& b, Value x, Dim /*dim*/) { return ToExpectedShape(b, x); }
Value SqueezeCopyDims(Builder& b, Value x, DimList /*dims*/) { return ToExpectedShape(b, x); }
Value UnsqueezeCopy(Builder& b, Value x, int64_t /*dim*/) { return ToExpectedShape(b, x); }
LOWER("view_copy", ViewCopy, kExact);
LOWER("_reshape_copy", ViewCopy, kExact);
LOWER("squeeze_copy", ToExpectedShape, kExact);
LOWER("squeeze_copy.dim", SqueezeCopy, kExact);
LOWER("squeeze_copy.dims", SqueezeCopyDims, kExact);
LOWER("unsqueeze_copy", UnsqueezeCopy, kExact);

// The last dimension changes size with the element's.
Value ViewDtypeCopy(Builder& b, Value x, DType dtype) {
  return hlo::ReadView(b, x, {b.Expected().dims, hlo::ContiguousStrides(b.Expected().dims), 0}, dtype);
}
LOWER("view_copy.dtype", ViewDtypeCopy, kExact);

Value ExpandCopy(Builder& b, Value x, Ints /*size*/, bool /*implicit*/) { return b.BroadcastTo(x, b.Expected().dims); }
LOWER("expand_copy", ExpandCopy, kExact);

Value PermuteCopy(Builder& b, Value x, DimList dims) { return b.Transpose(x, dims.dims); }
LOWER("permute_copy", PermuteCopy, kExact);

Value TransposeCopy(Builder& b, Value x, Dim dim0, Dim dim1) { return x.rank() == 0 ? x : b.SwapDims(x, dim0, dim1); }
LOWER("transpose_copy.int", TransposeCopy, kExact);

Value TCopy(Builder& b, Value x) { return x.rank() < 2 ? x : b.SwapDims(x, 0, 1); }
LOWER("t_copy", TCopy, kExact);

Value SelectCopy(Builder& b, Value x, Dim dim, int64_t index) {
  int64_t at = WrapDim(index, x.dim(dim));
  return b.Squeeze(b.SliceDim(x, dim, at, at + 1), dim);
}
LOWER("select_copy.int", SelectCopy, kExact);

// Bounds are clamped as Python does.
Value SliceCopy(Builder& b, Value x, Dim dim, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  int64_t size = x.dim(dim);
  int64_t low = std::clamp<int64_t>(WrapDim(start.value_or(0), size), 0, size);
  int64_t high = std::clamp<int64_t>(WrapDim(end.value_or(size), size), low, size);
  return b.SliceDim(x, dim, low, high, step);
}
LOWER("slice_copy.Tensor", SliceCopy, kExact);

Value NarrowCopy(Builder& b, Value x, Dim dim, int64_t start, int64_t length) {
  int64_t low = WrapDim(start, x.dim(dim));
  return b.SliceDim(x, dim, low, low + length);
}
LOWER("narrow_copy", NarrowCopy, kExact);

std::vector<Value> SplitWithSizesCopy(Builder& b, Value x, Ints sizes, Dim dim) {
  std::vector<Value> parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    parts.push_back(b.SliceDim(x, dim, start, start + size));
    start += size;
  }
  return parts;
}
LOWER("split_with_sizes_copy", SplitWithSizesCopy, kExact);

// At least one part, the last one shorter where the size does not divide.
std::vector<Value> SplitCopy(Builder& b, Value x, int64_t split_size, Dim dim) {
  Ints sizes;
  int64_t left = x.dim(dim);
  do {
    sizes.push_back(std::min(split_size, left));
    left -= sizes.back();
  } while (left > 0);
  return SplitWithSizesCopy(b, x, sizes, dim);
}
LOWER("split_copy.Tensor", SplitCopy, kExact);

std::vector<Value> UnbindCopy(Builder& b, Value x, Dim dim) {
  std::vector<Value> parts;
  for (int64_t i = 0; i < x.dim(dim); ++i) parts.push_back(SelectCopy(b, x, dim, i));
  return parts;
}
LOWER("unbind_copy.int", UnbindCopy, kExact);

Value DiagonalCopy(Builder& b, Value x, int64_t offset, Dim dim1, Dim dim2) {
  hlo::View view{{}, {}, 0};
  Ints strides = hlo::ContiguousStrides(x.dims());
  for (int64_t d : OtherDims(x.rank(), Ints{dim1, dim2})) {
    view.sizes.push_back(x.dim(d));
    view.strides.push_back(strides[d]);
  }
  int64_t below = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  view.sizes.push_back(std::max<int64_t>(std::min(x.dim(dim1) - below, x.dim(dim2) - right), 0));
  view.strides.push_back(strides[dim1] + strides[dim2]);
  if (hlo::NumElements(view.sizes) == 0) return b.Zeros({x.dtype(), view.sizes});
  view.offset = below * strides[dim1] + right * strides[dim2];
  return hlo::ReadView(b, x, view, x.dtype());
}
LOWER("diagonal_copy", DiagonalCopy, kExact);

Value UnfoldCopy(Builder& b, Value x, Dim dim, int64_t size, int64_t step) {
  hlo::View view{x.dims(), hlo::ContiguousStrides(x.dims()), 0};
  if (x.rank() == 0) return b.Reshape(x, b.Expected().dims);
  view.sizes[dim] = (x.dim(dim) - size) / step + 1;
  view.sizes.push_back(size);
  view.strides.push_back(view.strides[dim]);
  view.strides[dim] *= step;
  return hlo::ReadView(b, x, view, x.dtype());
}
LOWER("unfold_copy", UnfoldCopy, kExact);

// `x` is dense and row-major here, whatever strides it has in PyTorch.
Value AsStridedCopy(Builder& b, Value x, Ints size, Ints stride, std::optional<int64_t> offset) {
  return hlo::ReadView(b, x, {std::move(size), std::move(stride), offset.value_or(0)}, x.dtype());
}
LOWER("as_strided_copy", AsStridedCopy, kExact);

Value ViewAsRealCopy(Builder& b, Value x) {
  std::vector<Value> parts{b.Unsqueeze(b.Real(x), x.rank()), b.Unsqueeze(b.Imag(x), x.rank())};
  return b.Concat(parts, x.rank());
}
LOWER("view_as_real_copy", ViewAsRealCopy, kExact);

Value ViewAsComplexCopy(Builder& b, Value x) {
  int64_t last = x.rank() - 1;
  return b.Complex(b.Squeeze(b.SliceDim(x, last, 0, 1), last), b.Squeeze(b.SliceDim(x, last, 1, 2), last));
}
LOWER("view_as_complex_copy", ViewAsComplexCopy, kExact);

Value ConjCopy(Builder& b, Value x) { return b.Conj(x); }
LOWER("_conj_copy", ConjCopy, kExact);

Value NegViewCopy(Builder& b, Value x) { return b.Neg(x); }
LOWER("_neg_view_copy", NegViewCopy, kExact);

}  // namespace
}  // namespace tpu::lowering
