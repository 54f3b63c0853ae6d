#include "lowering/resampling.h"

#include <algorithm>

namespace tpu::lowering {
namespace {

// The positions 0, 0, .., 1, 1, .. of a repetition by the returned factor; 0 if they are something else.
int64_t RepeatFactor(const Ints& positions, int64_t in) {
  int64_t out = static_cast<int64_t>(positions.size());
  if (in == 0 || out % in != 0) return 0;
  int64_t factor = out / in;
  for (int64_t o = 0; o < out; ++o) {
    if (positions[o] != o / factor) return 0;
  }
  return factor;
}

Ints WithSplit(const Ints& dims, int64_t dim, int64_t outer, int64_t inner) {
  Ints split = dims;
  split[dim] = outer;
  split.insert(split.begin() + dim + 1, inner);
  return split;
}

// [out, in] coefficients.
Value Matrix(Builder& b, const Taps& taps, DType dtype) {
  Value column = b.Iota(Ints{taps.out, taps.in}, 1, DType::kI32);
  Value sum;
  for (size_t k = 0; k < taps.index.size(); ++k) {
    Value hit = b.Eq(column, b.Reshape(b.ConstInts(taps.index[k], DType::kI32), Ints{taps.out, 1}));
    Value term = taps.weight.empty()
                     ? b.Cast(hit, dtype)
                     : b.Select(hit, b.Reshape(b.ConstDoubles(taps.weight[k], dtype), Ints{taps.out, 1}), 0.0);
    sum = sum.valid() ? sum + term : term;
  }
  return sum;
}

// Contracts x's `dim` with the matrix's dimension `contract`; the other one takes its place.
Value Contract(Builder& b, Value x, int64_t dim, Value matrix, int64_t contract) {
  Value y = b.DotGeneral(x, matrix, {}, {}, Ints{dim}, Ints{contract});
  Ints permutation;
  for (int64_t d = 0; d < x.rank(); ++d) permutation.push_back(d < dim ? d : d == dim ? x.rank() - 1 : d - 1);
  return b.Transpose(y, permutation);
}

}  // namespace

Value TakeAt(Builder& b, Value x, int64_t dim, const Ints& positions) {
  int64_t out = static_cast<int64_t>(positions.size()), in = x.dim(dim);
  if (int64_t factor = RepeatFactor(positions, in); factor > 0) {
    if (factor == 1) return x;
    Ints kept;
    for (int64_t d = 0; d < x.rank(); ++d) kept.push_back(d > dim ? d + 1 : d);
    Ints dims = x.dims();
    dims[dim] = out;
    return b.Reshape(b.BroadcastInDim(x, WithSplit(x.dims(), dim, in, factor), kept), dims);
  }
  int64_t step = out > 1 ? positions[1] - positions[0] : 1;
  bool arithmetic = step > 0;
  for (int64_t o = 1; o < out && arithmetic; ++o) arithmetic = positions[o] - positions[o - 1] == step;
  if (arithmetic && out > 0) return b.SliceDim(x, dim, positions[0], positions.back() + 1, step);
  hlo::GatherDims gather;
  Ints sizes = x.dims();
  sizes[dim] = 1;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d != dim) gather.offset_dims.push_back(d);
  }
  gather.collapsed_slice_dims = gather.start_index_map = {dim};
  gather.index_vector_dim = 1;
  gather.indices_are_sorted = std::is_sorted(positions.begin(), positions.end());
  return b.Gather(x, b.Reshape(b.ConstInts(positions, DType::kI32), Ints{out, 1}), gather, sizes);
}

Value Resample(Builder& b, Value x, int64_t dim, const Taps& taps) {
  constexpr size_t kMostGathers = 4;
  if (taps.weight.empty()) return TakeAt(b, x, dim, taps.index[0]);
  if (taps.index.size() > kMostGathers) return Contract(b, x, dim, Matrix(b, taps, x.dtype()), 1);
  Ints broadcast(x.rank(), 1);
  broadcast[dim] = taps.out;
  Value sum;
  for (size_t k = 0; k < taps.index.size(); ++k) {
    Value weight = b.Reshape(b.ConstDoubles(taps.weight[k], x.dtype()), broadcast);
    Value term = TakeAt(b, x, dim, taps.index[k]) * weight;
    sum = sum.valid() ? sum + term : term;
  }
  return sum;
}

Value ResampleAdjoint(Builder& b, Value grad, int64_t dim, const Taps& taps) {
  if (taps.weight.empty()) {
    if (int64_t factor = RepeatFactor(taps.index[0], taps.in); factor > 0) {
      if (factor == 1) return grad;
      return b.Sum(b.Reshape(grad, WithSplit(grad.dims(), dim, taps.in, factor)), Ints{dim + 1}, false);
    }
  }
  return Contract(b, grad, dim, Matrix(b, taps, grad.dtype()), 0);
}

}  // namespace tpu::lowering
