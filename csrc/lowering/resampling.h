// Linear maps along one dimension whose coefficients are known when the program is built: output o is the sum over taps
// k of weight[k][o] * input[index[k][o]]. Interpolation and adaptive averages are such maps, one per dimension.
#pragma once

#include "lowering/lowering.h"

namespace tpu::lowering {

struct Taps {
  int64_t in = 0, out = 0;
  std::vector<Ints> index;                  // [taps][out], in [0, in)
  std::vector<std::vector<double>> weight;  // [taps][out]; empty: one tap of weight 1
};

// x at fixed positions along `dim`; a slice or a repetition where the positions allow it.
Value TakeAt(Builder& b, Value x, int64_t dim, const Ints& positions);

// x of `in` along `dim` -> `out`. A few taps are gathered (so infinities stay where they are), many are a product.
Value Resample(Builder& b, Value x, int64_t dim, const Taps& taps);

// The transpose of the map: a gradient of `out` along `dim` -> `in`.
Value ResampleAdjoint(Builder& b, Value grad, int64_t dim, const Taps& taps);

}  // namespace tpu::lowering
