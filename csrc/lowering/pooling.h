// What the pooling lowerings share: positions in a plane, the maximum with its position, and writing to positions.
// A plane is the last `spatial` dimensions of a tensor, flattened.
#pragma once

#include "lowering/indexing.h"

namespace tpu::lowering {

// The flat position of every element of a plane, with the plane's rank; int32 where that suffices.
Value PlanePositions(Builder& b, std::span<const int64_t> spatial_dims);
DType PositionType(std::span<const int64_t> spatial_dims);

// {value, position} pairs: the larger value; of equals the first position, of NaNs the last (what CPU and CUDA do by
// scanning the window in order). Associative and commutative. The identity is {Lowest, PastEveryPosition}.
std::vector<Value> LargerWithPosition(Builder& b, std::span<const Value> pairs);
Value PastEveryPosition(Builder& b, DType dtype);

// result[..., positions[..., i]] = values[..., i] (or +=) in zeros of [leading dims..., spatial_dims...].
Value WriteToPlane(Builder& b, Value values, Value positions, std::span<const int64_t> spatial_dims, bool add);

// One number may stand for every spatial dimension.
Ints SpreadOver(const Ints& list, size_t spatial);

}  // namespace tpu::lowering
