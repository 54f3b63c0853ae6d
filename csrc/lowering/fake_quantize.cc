// Quantisation simulated in floating point, for training; each with the mask of elements that were not clamped.

#include "lowering/elementwise.h"

namespace tpu::lowering {
namespace {

using ValueAndMask = std::pair<Value, Value>;

// (clamp(round(x / scale) + zero_point) - zero_point) scale, scale and zero point broadcast against x.
ValueAndMask FakeQuantize(Builder& b, Value x, Value scale, Value zero_point, int64_t low, int64_t high) {
  double lowest = static_cast<double>(low), highest = static_cast<double>(high);
  Value q = b.RoundEven(x * b.Reciprocal(scale)) + zero_point;
  Value inside = b.And(b.Ge(q, lowest), b.Le(q, highest));
  return {(b.Min(b.Max(q, lowest), highest) - zero_point) * scale, inside};
}

ValueAndMask PerTensor(Builder& b, Value x, double scale, int64_t zero_point, int64_t low, int64_t high) {
  return FakeQuantize(b, x, b.ConstLike(scale, x), b.ConstLike(static_cast<double>(zero_point), x), low, high);
}

ValueAndMask PerTensorQparams(Builder& b, Value x, Value scale, Value zero_point, Value enabled, int64_t low,
                              int64_t high) {
  DType t = x.dtype();
  auto scalar = [&](Value v) { return b.Reshape(b.Cast(v, t), Ints{}); };
  auto [y, mask] = FakeQuantize(b, x, scalar(scale), scalar(zero_point), low, high);
  Value on = b.Ne(scalar(enabled), 0.0);
  return {b.Select(on, y, x), b.Or(mask, b.Not(on))};
}

ValueAndMask PerChannel(Builder& b, Value x, Value scale, Value zero_point, Dim axis, int64_t low, int64_t high) {
  auto along = [&](Value v) {
    Ints dims(x.rank(), 1);
    dims[axis] = x.dim(axis);
    return b.Reshape(b.Cast(v, x.dtype()), dims);
  };
  return FakeQuantize(b, x, along(scale), along(zero_point), low, high);
}

}  // namespace

LOWER("fake_quantize_per_tensor_affine_cachemask", PerTensor);
LOWER("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", PerTensorQparams);
LOWER("fake_quantize_per_channel_affine_cachemask", PerChannel);

}  // namespace tpu::lowering
