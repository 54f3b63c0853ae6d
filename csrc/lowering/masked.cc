// Elements chosen by a mask, in order: each true element's place is the number of true ones up to it.
#include "lowering/indexing.h"

namespace tpu::lowering {
namespace {

// Flat: for every element of the mask the number of true elements before it.
Value Places(Builder& b, Value mask) {
  return InclusiveSum(b, b.Flatten(b.Cast(b.Cast(mask, DType::kBool), DType::kI32))) - 1.0;
}

// `updates` rows at the places of the true elements of `mask`, into `base`; what is beyond its end is dropped.
Value Compact(Builder& b, Value base, Value mask, Value updates) {
  Value outside = b.ConstInt(base.dim(0), DType::kI32);
  Value at = b.Select(b.Flatten(b.Cast(mask, DType::kBool)), Places(b, mask), outside);
  return ScatterRows(b, base, 0, at, updates, TakeUpdate);
}

Value MaskedScatter(Builder& b, Value self, Value mask, Value source) {
  Ints dims = hlo::BroadcastDims(self.dims(), mask.dims());
  self = b.BroadcastTo(self, dims);
  mask = b.Cast(b.BroadcastTo(mask, dims), DType::kBool);
  if (self.numel() == 0 || source.numel() == 0) return self;
  Value taken = SelectRows(b, b.Flatten(b.Cast(source, self.dtype())), 0, b.Max(Places(b, mask), 0.0));
  return b.Select(mask, b.Reshape(taken, dims), self);
}
LOWER("masked_scatter", MaskedScatter, kExact);

// The gradient of `source`: the masked elements, then zeros.
Value MaskedScatterBackward(Builder& b, Value grad, Value mask, Ints sizes) {
  mask = b.BroadcastTo(mask, grad.dims());
  Value zeros = b.Full(Ints{hlo::NumElements(sizes)}, 0.0, grad.dtype());
  return b.Reshape(Compact(b, zeros, mask, b.Flatten(grad)), sizes);
}
LOWER("masked_scatter_backward", MaskedScatterBackward, kExact);

Value NonzeroStatic(Builder& b, Value x, int64_t size, int64_t fill_value) {
  Ints out{size, x.rank()};
  Value unfilled = b.Full(out, b.ConstInt(fill_value));
  if (hlo::NumElements(out) == 0 || x.numel() == 0) return unfilled;
  std::vector<Value> coordinates;
  for (int64_t d = 0; d < x.rank(); ++d) coordinates.push_back(b.Reshape(b.Iota(x.dims(), d), Ints{x.numel(), 1}));
  return Compact(b, unfilled, x, b.Concat(coordinates, 1));
}
LOWER("nonzero_static", NonzeroStatic, kExact);

}  // namespace
}  // namespace tpu::lowering
