// Running sums, products and extremes along a dimension.
#include "lowering/reduction.h"

namespace tpu::lowering {
namespace {

using Combination = Value (*)(Builder&, Value, Value);

Value Scan(Builder& b, Value x, int64_t dim, Combination combine) {
  if (x.rank() == 0 || x.numel() == 0) return x;
  return b.AssociativeScan(std::array{x}, dim, [&](std::span<const Value> before, std::span<const Value> after) {
    return std::vector<Value>{combine(b, before[0], after[0])};
  })[0];
}

Value CumSum(Builder& b, Value x, Dim dim, std::optional<DType>) {
  return Scan(b, b.Cast(x, Accumulator(b)), dim, [](Builder&, Value s, Value t) { return s + t; });
}
LOWER("cumsum", CumSum);

Value CumProd(Builder& b, Value x, Dim dim, std::optional<DType>) {
  return Scan(b, b.Cast(x, Accumulator(b)), dim, [](Builder&, Value s, Value t) { return s * t; });
}
LOWER("cumprod", CumProd);

// log(e^s + e^t) = hi + log1p(e^(lo - hi)); equal infinities are their own sum.
Value LogAddExp(Builder& b, Value s, Value t) {
  if (IsComplex(s.dtype())) {
    Value s_leads = b.Ge(b.Real(s), b.Real(t));
    Value hi = b.Select(s_leads, s, t), lo = b.Select(s_leads, t, s);
    return b.Select(b.Eq(b.Real(hi), -std::numeric_limits<double>::infinity()), hi, hi + b.Log(b.Exp(lo - hi) + 1.0));
  }
  Value lo = b.Min(s, t), hi = b.Max(s, t);
  return b.Select(b.Or(b.Ne(lo, hi), b.IsFinite(lo)), b.Log1p(b.Exp(lo - hi)) + hi, s);
}
Value LogCumSumExp(Builder& b, Value x, Dim dim) { return Scan(b, x, dim, LogAddExp); }
LOWER("logcumsumexp", LogCumSumExp);

// A later element replaces the running one where it is at least as extreme or NaN; a NaN is only replaced by a NaN.
template <hlo::Compare at_least>
std::pair<Value, Value> CumExtreme(Builder& b, Value x, Dim dim) {
  Value index = b.Iota(AtLeast1d(b, x).dims(), x.rank() == 0 ? 0 : dim.value);
  if (x.rank() == 0 || x.numel() == 0) return {x, b.Reshape(index, x.dims())};
  Value ordered = IsBool(x.dtype()) ? b.Cast(x, DType::kU8) : x;
  auto scanned = b.AssociativeScan(
      std::array{ordered, index}, dim, [&](std::span<const Value> before, std::span<const Value> after) {
        Value later = b.Cmp(at_least, after[0], before[0]);
        if (IsFloat(ordered.dtype())) later = b.Or(later, b.IsNan(after[0]));
        return std::vector<Value>{b.Select(later, after[0], before[0]), b.Select(later, after[1], before[1])};
      });
  return {scanned[0], scanned[1]};
}
LOWER("cummax", CumExtreme<hlo::Compare::kGe>);
LOWER("cummin", CumExtreme<hlo::Compare::kLe>);

}  // namespace
}  // namespace tpu::lowering
