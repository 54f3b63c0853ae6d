// Diagonals and triangles of matrices, as masks by row and column.
#pragma once

#include "lowering/lowering.h"

namespace tpu::lowering {

// Where column - row == offset (>= for kGe, <= for kLe), in the last two of `dims`.
Value DiagonalMask(Builder& b, std::span<const int64_t> dims, hlo::Compare how, int64_t offset);
// [..., k] as the diagonal `offset` of zero matrices [..., rows, columns].
Value EmbedDiagonal(Builder& b, Value x, int64_t offset, int64_t rows, int64_t columns);
// The last two dimensions moved to `dim1` and `dim2`.
Value MoveMatrixTo(Builder& b, Value x, int64_t dim1, int64_t dim2);

}  // namespace tpu::lowering
