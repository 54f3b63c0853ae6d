// Norms of vectors.
#pragma once

#include "lowering/lowering.h"

namespace tpu::lowering {

// (sum |x|^p)^(1/p) over `dims`, kept as size 1; none where the list is empty. p = 0 counts the nonzeros, +-inf take
// the largest (smallest) modulus.
Value Norm(Builder& b, Value x, double p, const Ints& dims);

}  // namespace tpu::lowering
