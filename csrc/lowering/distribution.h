// Draws from distributions that more than one file makes.
#pragma once

#include "lowering/lowering.h"

namespace tpu::lowering {

// The type that draws for a result of `dtype` are computed in: float64 or float32.
DType DrawType(DType dtype);
// Uniform in (0, 1): [0, 1) with 0 moved half a step up.
Value OpenUniform(Builder& b, Rng& rng, std::span<const int64_t> dims, DType dtype);
// Of rate 1; positive.
Value StandardExponential(Builder& b, Rng& rng, std::span<const int64_t> dims, DType dtype);
// Uniform ui64.
Value Bits64(Builder& b, Rng& rng, std::span<const int64_t> dims);

}  // namespace tpu::lowering
