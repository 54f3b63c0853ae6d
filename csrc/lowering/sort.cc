// Sorting, and selection by rank. NaN counts as the largest value everywhere, as in PyTorch.
#include "lowering/reduction.h"

namespace tpu::lowering {
namespace {

// Positions along a dimension; 32 bits where they suffice, since 64-bit payloads sort slowly on TPU.
Value Positions(Builder& b, Value x, int64_t dim) {
  return b.Iota(x.dims(), dim, x.dim(dim) < (int64_t{1} << 31) ? DType::kI32 : DType::kI64);
}

struct Sorted {
  Value values, indices;
};
// Stable, of an array of rank >= 1. Values are unsigned bytes where x is bool.
Sorted SortAlong(Builder& b, Value x, int64_t dim, bool descending) {
  Value keys = IsBool(x.dtype()) ? b.Cast(x, DType::kU8) : x;
  bool has_nan = IsFloat(keys.dtype());
  auto before = [&](Builder&, std::span<const Value> v) {
    Value first = descending ? v[1] : v[0], second = descending ? v[0] : v[1];
    Value less = b.Lt(first, second);
    return has_nan ? b.Or(less, b.And(b.IsNan(second), b.Not(b.IsNan(first)))) : less;
  };
  auto sorted = b.Sort(std::array{keys, Positions(b, x, dim)}, dim, /*stable=*/true, before);
  return {sorted[0], sorted[1]};
}

std::pair<Value, Value> Sort(Builder& b, Value x, Dim dim, bool descending) {
  auto [values, indices] = SortAlong(b, AtLeast1d(b, x), dim, descending);
  return {b.Reshape(values, x.dims()), b.Reshape(indices, x.dims())};
}
std::pair<Value, Value> SortStable(Builder& b, Value x, std::optional<bool> /*stable*/, Dim dim, bool descending) {
  return Sort(b, x, dim, descending);
}
LOWER("sort", Sort);
LOWER("sort.stable", SortStable);

// Always sorted, whatever `sorted` asks.
std::pair<Value, Value> TopK(Builder& b, Value x, int64_t k, Dim dim, bool largest, bool /*sorted*/) {
  auto [values, indices] = SortAlong(b, AtLeast1d(b, x), dim, largest);
  auto first = [&](Value v, size_t i) { return b.Reshape(b.SliceDim(v, dim, 0, k), b.Expected(i).dims); };
  return {first(values, 0), first(indices, 1)};
}
LOWER("topk", TopK);

// The element of rank `position` (sizes 1 along dim) of a sorted array, shaped as the results are expected.
std::pair<Value, Value> AtRank(Builder& b, const Sorted& sorted, int64_t dim, Value position) {
  return {b.Reshape(b.TakeAlong(sorted.values, dim, position), b.Expected(0).dims),
          b.Reshape(b.TakeAlong(sorted.indices, dim, position), b.Expected(1).dims)};
}

std::pair<Value, Value> KthValue(Builder& b, Value x, int64_t k, Dim dim, bool /*keepdim*/) {
  auto [values, indices] = SortAlong(b, AtLeast1d(b, x), dim, false);
  auto at = [&](Value v, size_t i) { return b.Reshape(b.SliceDim(v, dim, k - 1, k), b.Expected(i).dims); };
  return {at(values, 0), at(indices, 1)};
}
LOWER("kthvalue", KthValue);

// The rank of the lower median of a row of n values, `nans` of them NaN. The median is NaN if any is (the first one, as
// the sort is stable); nanmedian looks at the others, and gives NaN if there are none.
Value MedianRank(Builder& b, Value x, int64_t dim, bool ignore_nan) {
  int64_t n = x.dim(dim);
  Value nans = b.Sum(b.Cast(IsNanOrFalse(b, x), DType::kI64), dim);
  if (ignore_nan) return b.Max((static_cast<double>(n - 1) - nans) / 2.0, 0.0);
  return b.Select(b.Gt(nans, 0.0), static_cast<double>(n) - nans, b.ConstInt((n - 1) / 2));
}

template <bool ignore_nan>
std::pair<Value, Value> MedianDim(Builder& b, Value x, Dim dim, bool /*keepdim*/) {
  x = AtLeast1d(b, x);
  return AtRank(b, SortAlong(b, x, dim, false), dim, MedianRank(b, x, dim, ignore_nan));
}
LOWER("median.dim", MedianDim<false>);
LOWER("nanmedian.dim", MedianDim<true>);

template <bool ignore_nan>
Value Median(Builder& b, Value x) {
  if (x.numel() == 0) return b.Const(std::numeric_limits<double>::quiet_NaN(), x.dtype());
  x = b.Flatten(x);
  Value median = b.TakeAlong(SortAlong(b, x, 0, false).values, 0, MedianRank(b, x, 0, ignore_nan));
  return b.Reshape(median, Ints{});
}
LOWER("median", Median<false>);
LOWER("nanmedian", Median<true>);

// The smallest of the most frequent values and, as on CPU, its last position: a run ends at its last element
// in the sorted row, where (position - start of run) is its length: the first maximum wins. NaNs never form a run.
std::pair<Value, Value> Mode(Builder& b, Value x, Dim dim, bool /*keepdim*/) {
  x = AtLeast1d(b, x);
  Sorted sorted = SortAlong(b, x, dim, false);
  int64_t n = x.dim(dim);
  if (n == 0) return {b.Reshape(sorted.values, b.Expected(0).dims), b.Reshape(sorted.indices, b.Expected(1).dims)};
  Value position = b.Iota(x.dims(), dim);
  Value changed = b.Ne(b.SliceDim(sorted.values, dim, 1, n), b.SliceDim(sorted.values, dim, 0, n - 1));
  Value starts = b.Select(changed, b.SliceDim(position, dim, 1, n), 0.0);
  Value start = b.AssociativeScan(
      std::array{b.Concat(std::array{b.SliceDim(position, dim, 0, 1), starts}, dim)}, dim,
      [&](std::span<const Value> s, std::span<const Value> t) { return std::vector<Value>{b.Max(s[0], t[0])}; })[0];
  return AtRank(b, sorted, dim, b.ArgMax(position - start, dim).second);
}
LOWER("mode", Mode);

}  // namespace
}  // namespace tpu::lowering
