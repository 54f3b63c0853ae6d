// How losses are reduced.
#pragma once

#include "lowering/reduction.h"

namespace tpu::lowering {

// at::Reduction
enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

inline Value ReduceLoss(Builder& b, Value loss, int64_t reduction) {
  if (reduction == kNone) return loss;
  Value sum = b.Sum(loss, Ints{}, false);
  return reduction == kMean ? sum / static_cast<double>(loss.numel()) : sum;
}

// The gradient of the reduction: `grad` is a scalar unless there was none. `count` is how many losses were averaged.
inline Value LossGrad(Value grad, int64_t count, int64_t reduction) {
  return reduction == kMean && count > 0 ? grad / static_cast<double>(count) : grad;
}

}  // namespace tpu::lowering
