// Where values belong in a sorted sequence.
#pragma once

#include "lowering/lowering.h"

namespace tpu::lowering {

// The first i with sequence[i] >= value (right: > value) along the last dimension, as i32. The sequence is 1-d, or has
// the leading dimensions of `values`.
Value SearchSorted(Builder& b, Value sequence, Value values, bool right);

}  // namespace tpu::lowering
