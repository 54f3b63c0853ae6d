// What the normalising layers share. Arrays keep their reduced dimensions as size 1.
#pragma once

#include "lowering/reduction.h"

namespace tpu::lowering {

struct Moments {
  Value mean, variance;  // biased
};
inline Moments MomentsOver(Builder& b, Value x, const Ints& dims) {
  Value mean = MeanOver(b, x, dims);
  return {mean, MeanOver(b, b.Square(x - mean), dims)};
}

// The gradient of xhat = (x - mean x) * rstd through its statistics over `dims`, g being the gradient of xhat:
// rstd * (g - mean(g) - xhat * mean(g * xhat)).
inline Value NormalizedGrad(Builder& b, Value g, Value xhat, Value rstd, const Ints& dims) {
  return rstd * (g - MeanOver(b, g, dims) - xhat * MeanOver(b, g * xhat, dims));
}

inline Value ScaleAndShift(Value x, const std::optional<Value>& weight, const std::optional<Value>& bias) {
  if (weight) x = x * *weight;
  return bias ? x + *bias : x;
}

}  // namespace tpu::lowering
