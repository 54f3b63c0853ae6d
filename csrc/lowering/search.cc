#include "lowering/search.h"

#include "lowering/reduction.h"

namespace tpu::lowering {

// Up to this length every element is compared, in one fused reduction; beyond it a bisection gathers.
constexpr int64_t kCompareAllLength = 128;

Value SearchSorted(Builder& b, Value sequence, Value values, bool right) {
  int64_t n = sequence.dim(-1);
  // Negated so that a NaN value lies behind everything.
  auto passes = [&](Value element, Value value) { return b.Not(right ? b.Gt(element, value) : b.Ge(element, value)); };
  Value low = b.Full(values.dims(), 0.0, DType::kI32);
  if (n == 0 || values.numel() == 0) return low;
  if (n <= kCompareAllLength) {
    Value rows = b.Unsqueeze(sequence, sequence.rank() - 1);  // [..., 1, n]
    if (sequence.rank() == 1) rows = sequence;
    Value passed = passes(rows, b.Unsqueeze(values, values.rank()));
    return b.Sum(b.Cast(passed, DType::kI32), Ints{values.rank()}, false);
  }
  Value high = b.Full(values.dims(), static_cast<double>(n), DType::kI32);
  for (uint64_t width = static_cast<uint64_t>(n); width > 0; width >>= 1) {
    Value middle = b.ShiftRightLogical(low + high, b.ConstInt(1, DType::kI32));
    Value index = b.Min(middle, static_cast<double>(n - 1));
    Value element = sequence.rank() == 1 ? b.TakeRows(sequence, index) : b.TakeAlong(sequence, -1, index);
    Value open = b.Lt(low, high), pass = passes(element, values);
    low = b.Select(b.And(open, pass), middle + 1, low);
    high = b.Select(b.And(open, b.Not(pass)), middle, high);
  }
  return low;
}

namespace {

Value Search(Builder& b, Value sequence, Value values, bool /*out_int32*/, bool right,
             std::optional<std::string_view> side, std::optional<Value> sorter) {
  if (sorter) sequence = b.TakeAlong(sequence, -1, *sorter);
  Value found = SearchSorted(b, sequence, AtLeast1d(b, values), right || side == "right");
  return b.Reshape(found, b.Expected().dims);
}
LOWER("searchsorted.Tensor", Search);
LOWER("searchsorted.Scalar", Search);

Value Bucketize(Builder& b, Value values, Value boundaries, bool /*out_int32*/, bool right) {
  return b.Reshape(SearchSorted(b, boundaries, AtLeast1d(b, values), right), values.dims());
}
LOWER("bucketize.Tensor", Bucketize);
LOWER("bucketize.Scalar", Bucketize);

// Rows of a sparse matrix's elements, in order, to where each of `size` rows begins; and back.
Value RowStarts(Builder& b, Value rows, int64_t size, bool /*out_int32*/) {
  Value places = b.Iota(size + 1, rows.dtype());
  return rows.numel() == 0 ? b.ZerosLike(places) : SearchSorted(b, rows, places, false);
}
LOWER("_convert_indices_from_coo_to_csr", RowStarts);

Value RowsOf(Builder& b, Value starts, Value columns, bool /*out_int32*/, bool transpose) {
  if (starts.rank() != 1) throw hlo::BuildError("expected one sparse matrix, found a batch. Convert them one by one.");
  Value rows = columns;
  if (columns.numel() > 0) {
    Value places = b.Iota(columns.dim(0), starts.dtype());
    rows = b.Cast(SearchSorted(b, b.SliceDim(starts, 0, 1, starts.dim(0)), places, true), columns.dtype());
  }
  std::vector<Value> both = {b.Unsqueeze(transpose ? columns : rows, 0), b.Unsqueeze(transpose ? rows : columns, 0)};
  return b.Concat(both, 0);
}
LOWER("_convert_indices_from_csr_to_coo", RowsOf);

}  // namespace
}  // namespace tpu::lowering
