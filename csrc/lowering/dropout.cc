// Dropout. The mask is PyTorch's: true keeps.
#include "lowering/lowering.h"

namespace tpu::lowering {
namespace {

// Each element is kept with probability `keep` and then divided by it.
std::pair<Value, Value> Drop(Builder& b, Value x, double keep, Rng* rng) {
  Value mask = b.Lt(rng->Uniform(x.dims(), DType::kF32), keep);
  return {x * b.Cast(mask, x.dtype()) * (1 / keep), mask};
}

std::pair<Value, Value> NativeDropout(Builder& b, Value x, double p, std::optional<bool> train, Rng* rng) {
  if (!train.value_or(true) || p == 0) return {x, b.Full(x.dims(), 1.0, DType::kBool)};
  if (p == 1) return {b.ZerosLike(x), b.Full(x.dims(), 0.0, DType::kBool)};
  return Drop(b, x, 1 - p, rng);
}
LOWER("native_dropout", NativeDropout);

// The scale makes a floating-point number of an integer.
Value NativeDropoutGrad(Builder& b, Value grad, Value mask, double scale) {
  if (!IsFloat(grad.dtype()) && !IsComplex(grad.dtype())) grad = b.Cast(grad, b.Expected().dtype);
  return grad * b.Cast(mask, grad.dtype()) * scale;
}
LOWER("native_dropout_backward", NativeDropoutGrad);

// Here p is the probability to keep, and the mask bytes.
std::pair<Value, Value> FusedDropout(Builder& b, Value x, double p, Rng* rng) {
  auto [out, mask] = Drop(b, x, p, rng);
  return {out, b.Cast(mask, DType::kU8)};
}
LOWER("_fused_dropout", FusedDropout);

}  // namespace
}  // namespace tpu::lowering
