// Gradients of views, and writes through one into a copy (the *_scatter ops).
#include <algorithm>

#include "hlo/view.h"
#include "lowering/indexing.h"

namespace tpu::lowering {
namespace {

// start and end of x[start:end:step], clamped as Python does.
std::pair<int64_t, int64_t> SliceBounds(int64_t size, int64_t start, int64_t end) {
  if (start < 0) start += size;
  if (end < 0) end += size;
  start = std::clamp<int64_t>(start, 0, size);
  return {start, std::clamp<int64_t>(end, start, size)};
}

// `x` at start, start + step, ... of a dimension of `size`, the rest filled with `fill`.
Value Spread(Builder& b, Value x, Value fill, int64_t dim, int64_t size, int64_t start, int64_t step) {
  Ints low(x.rank(), 0), high(x.rank(), 0), interior(x.rank(), 0);
  low[dim] = start;
  high[dim] = size - start - ((x.dim(dim) - 1) * step + 1);
  interior[dim] = step - 1;
  return b.Pad(x, fill, low, high, interior);
}

Value SliceBackward(Builder& b, Value grad, Ints input_sizes, int64_t dim, int64_t start, int64_t end, int64_t step) {
  if (grad.numel() == 0) return b.Zeros({grad.dtype(), input_sizes});
  dim = WrapDim(dim, grad.rank());
  start = SliceBounds(input_sizes[dim], start, end).first;
  return Spread(b, grad, b.Const(0.0, grad.dtype()), dim, input_sizes[dim], start, step);
}
LOWER("slice_backward", SliceBackward, kExact);

Value SelectBackward(Builder& b, Value grad, Ints input_sizes, int64_t dim, int64_t index) {
  if (grad.numel() == 0) return b.Zeros({grad.dtype(), input_sizes});
  dim = WrapDim(dim, static_cast<int64_t>(input_sizes.size()));
  int64_t size = input_sizes[dim];
  return Spread(b, b.Unsqueeze(grad, dim), b.Const(0.0, grad.dtype()), dim, size, WrapDim(index, size), 1);
}
LOWER("select_backward", SelectBackward, kExact);

Value WriteSlice(Builder& b, Value self, Value source, int64_t dim, int64_t start, int64_t step) {
  if (source.numel() == 0) return self;
  source = b.Cast(source, self.dtype());
  if (step == 1) {
    Ints starts(self.rank(), 0);
    starts[dim] = start;
    return b.UpdateSlice(self, source, starts);
  }
  int64_t size = self.dim(dim);
  Value ones = b.Full(Ints{source.dim(dim)}, 1.0, DType::kBool);
  Value rows = Spread(b, ones, b.Const(0.0, DType::kBool), 0, size, start, step);
  Value spread = Spread(b, source, b.Const(0.0, self.dtype()), dim, size, start, step);
  return b.Select(b.BroadcastInDim(rows, self.dims(), Ints{dim}), spread, self);
}

Value SliceScatter(Builder& b, Value self, Value source, Dim dim, std::optional<int64_t> start,
                   std::optional<int64_t> end, int64_t step) {
  int64_t size = self.dim(dim);
  auto [low, high] = SliceBounds(size, start.value_or(0), end.value_or(size));
  Ints window = self.dims();
  window[dim] = (high - low + step - 1) / step;
  return WriteSlice(b, self, b.BroadcastTo(source, window), dim, low, step);
}
LOWER("slice_scatter", SliceScatter, kExact);

Value SelectScatter(Builder& b, Value self, Value source, Dim dim, int64_t index) {
  return WriteSlice(b, self, b.Unsqueeze(source, dim), dim, WrapDim(index, self.dim(dim)), 1);
}
LOWER("select_scatter", SelectScatter, kExact);

// `self` is dense and row-major here, whatever strides it has in PyTorch.
Value AsStridedScatter(Builder& b, Value self, Value source, Ints size, Ints stride, std::optional<int64_t> offset) {
  if (source.numel() == 0) return self;
  hlo::View view{std::move(size), std::move(stride), offset.value_or(0)};
  Value update = b.BroadcastTo(b.Cast(source, self.dtype()), view.sizes);
  return hlo::WriteView(b, self, view, update, self.dims());
}
LOWER("as_strided_scatter", AsStridedScatter, kExact);

// Window w holds elements w * step ... w * step + size - 1 of `dim`, in the last dimension of the gradient.
Value UnfoldBackward(Builder& b, Value grad, Ints input_sizes, int64_t dim, int64_t size, int64_t step) {
  int64_t rank = static_cast<int64_t>(input_sizes.size());
  if (rank == 0) return b.Reshape(b.Sum(grad, Ints{}, false), input_sizes);
  Value zeros = b.Zeros({grad.dtype(), input_sizes});
  if (grad.numel() == 0) return zeros;
  dim = WrapDim(dim, rank);
  int64_t windows = grad.dim(dim);
  constexpr int64_t kUnrolled = 8;
  if (size <= kUnrolled) {
    Value sum;
    for (int64_t i = 0; i < size; ++i) {
      Value element = b.Squeeze(b.SliceDim(grad, rank, i, i + 1), rank);
      Value spread = Spread(b, element, b.Const(0.0, grad.dtype()), dim, input_sizes[dim], i, step);
      sum = i == 0 ? spread : b.Add(sum, spread);
    }
    return sum;
  }
  // [..., window, element in it, ...], the two then merged into one dimension of rows.
  Ints permutation;
  for (int64_t d = 0; d < rank; ++d) {
    permutation.push_back(d);
    if (d == dim) permutation.push_back(rank);
  }
  Ints rows = input_sizes;
  rows[dim] = windows * size;
  Value starts = b.Mul(b.Iota(Ints{windows, size}, 0), b.ConstInt(step));
  Value index = b.Flatten(b.Add(starts, b.Iota(Ints{windows, size}, 1)));
  return ScatterRows(b, zeros, dim, index, b.Reshape(b.Transpose(grad, permutation), rows), AddUpdate);
}
LOWER("unfold_backward", UnfoldBackward);

}  // namespace
}  // namespace tpu::lowering
