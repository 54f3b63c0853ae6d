// Triangles and diagonals.
#include "lowering/diagonal.h"

#include <algorithm>
#include <cstdlib>

#include "lowering/indexing.h"

namespace tpu::lowering {

Value DiagonalMask(Builder& b, std::span<const int64_t> dims, hlo::Compare how, int64_t offset) {
  int64_t rows = dims[dims.size() - 2], columns = dims.back();
  Value difference = b.Sub(IotaAlong(b, 2, 1, columns), IotaAlong(b, 2, 0, rows));
  // Beyond the matrix all offsets are alike.
  int64_t bounded = std::clamp(offset, -rows - 1, columns + 1);
  return b.Cmp(how, difference, b.ConstInt(bounded, DType::kI32));
}

Value EmbedDiagonal(Builder& b, Value x, int64_t offset, int64_t rows, int64_t columns) {
  int64_t last = x.rank() - 1;
  Ints low(x.rank(), 0), high(x.rank(), 0);
  // Element i is at row i of an upper diagonal and at column i of a lower one.
  high[last] = (offset >= 0 ? rows : columns) - x.dim(last);
  Value zero = b.Const(0.0, x.dtype());
  Value spread = b.Unsqueeze(b.Pad(x, zero, low, high), offset >= 0 ? last + 1 : last);
  return b.Select(DiagonalMask(b, Ints{rows, columns}, hlo::Compare::kEq, offset), spread, zero);
}

Value MoveMatrixTo(Builder& b, Value x, int64_t dim1, int64_t dim2) {
  int64_t rank = x.rank(), next = 0;
  dim1 = WrapDim(dim1, rank);
  dim2 = WrapDim(dim2, rank);
  Ints permutation(rank);
  for (int64_t d = 0; d < rank; ++d) permutation[d] = d == dim1 ? rank - 2 : d == dim2 ? rank - 1 : next++;
  return b.Transpose(x, permutation);
}

namespace {

Value Tril(Builder& b, Value x, int64_t diagonal) {
  return b.Select(DiagonalMask(b, x.dims(), hlo::Compare::kLe, diagonal), x, 0.0);
}
LOWER("tril", Tril, kExact);

Value Triu(Builder& b, Value x, int64_t diagonal) {
  return b.Select(DiagonalMask(b, x.dims(), hlo::Compare::kGe, diagonal), x, 0.0);
}
LOWER("triu", Triu, kExact);

Value DiagEmbed(Builder& b, Value x, int64_t offset, int64_t dim1, int64_t dim2) {
  int64_t size = x.dims().back() + std::abs(offset);
  int64_t rank = x.rank() + 1;
  return MoveMatrixTo(b, EmbedDiagonal(b, x, offset, size, size), WrapDim(dim1, rank), WrapDim(dim2, rank));
}
LOWER("diag_embed", DiagEmbed, kExact);

Value DiagonalBackward(Builder& b, Value grad, Ints input_sizes, int64_t offset, int64_t dim1, int64_t dim2) {
  if (hlo::NumElements(input_sizes) == 0 || grad.numel() == 0) return b.Zeros({grad.dtype(), input_sizes});
  int64_t rank = static_cast<int64_t>(input_sizes.size());
  int64_t rows = input_sizes[WrapDim(dim1, rank)], columns = input_sizes[WrapDim(dim2, rank)];
  return MoveMatrixTo(b, EmbedDiagonal(b, grad, offset, rows, columns), dim1, dim2);
}
LOWER("diagonal_backward", DiagonalBackward, kExact);

Value DiagonalScatter(Builder& b, Value self, Value source, int64_t offset, int64_t dim1, int64_t dim2) {
  if (source.numel() == 0) return self;
  int64_t rank = self.rank();
  dim1 = WrapDim(dim1, rank);
  dim2 = WrapDim(dim2, rank);
  Value written = DiagonalBackward(b, b.Cast(source, self.dtype()), self.dims(), offset, dim1, dim2);
  Value columns = IotaAlong(b, rank, dim2, self.dim(dim2)), rows = IotaAlong(b, rank, dim1, self.dim(dim1));
  Value on = b.Eq(b.Sub(columns, rows), b.ConstInt(offset, DType::kI32));
  return b.Select(b.BroadcastTo(on, self.dims()), written, self);
}
LOWER("diagonal_scatter", DiagonalScatter, kExact);

// {rows, columns} of the triangle's elements in row-major order. Row r holds lengths[r] of them from column firsts[r].
Value TriangleIndices(Builder& b, const Ints& lengths, const Ints& firsts) {
  Ints starts;
  int64_t count = 0;
  for (int64_t length : lengths) {
    starts.push_back(count);
    count += length;
  }
  if (count == 0) return b.Zeros({DType::kI64, Ints{2, 0}});
  Ints shifts(starts.size());  // position minus column
  for (size_t r = 0; r < starts.size(); ++r) shifts[r] = starts[r] - firsts[r];
  Value ones = b.Full(Ints{static_cast<int64_t>(starts.size())}, 1.0, DType::kI64);
  Value begins = ScatterRows(b, b.Full(Ints{count}, 0.0, DType::kI64), 0, b.ConstInts(starts), ones, AddUpdate);
  Value rows = InclusiveSum(b, begins) - 1.0;
  Value columns = b.Sub(b.Iota(count), SelectRows(b, b.ConstInts(shifts), 0, rows));
  return b.Concat(std::vector<Value>{b.Unsqueeze(rows, 0), b.Unsqueeze(columns, 0)}, 0);
}

Value TrilIndices(Builder& b, int64_t rows, int64_t columns, int64_t offset, std::optional<DType>, Ignore, Ignore,
                  Ignore) {
  Ints lengths, firsts(rows, 0);
  for (int64_t r = 0; r < rows; ++r) lengths.push_back(std::clamp<int64_t>(r + offset + 1, 0, columns));
  return TriangleIndices(b, lengths, firsts);
}
LOWER("tril_indices", TrilIndices);

Value TriuIndices(Builder& b, int64_t rows, int64_t columns, int64_t offset, std::optional<DType>, Ignore, Ignore,
                  Ignore) {
  Ints lengths, firsts;
  for (int64_t r = 0; r < rows; ++r) {
    firsts.push_back(std::clamp<int64_t>(r + offset, 0, columns));
    lengths.push_back(columns - firsts.back());
  }
  return TriangleIndices(b, lengths, firsts);
}
LOWER("triu_indices", TriuIndices);

}  // namespace
}  // namespace tpu::lowering
