// Reductions of consecutive segments of a dimension, given their lengths or their bounds.
#include <limits>

#include "lowering/reduction.h"

namespace tpu::lowering {
namespace {

// Arrays are [outer..., segment, element, inner...]: `member` says which elements are whose. The dimension reduced is
// the last one of the lengths, whatever `axis` says, as in PyTorch's kernels.
struct Segments {
  int64_t axis;
  Value member;  // bool
  Value length;  // i64, size 1 along elements
};

Segments SegmentsOf(Builder& b, Value data, const std::optional<Value>& lengths, const std::optional<Value>& offsets) {
  Value given = b.Cast(lengths ? *lengths : offsets.value(), DType::kI64);
  int64_t axis = given.rank() - 1;
  Value start, end;
  if (lengths) {
    end = given.dim(axis) == 0 ? given : b.AssociativeScan(std::array{given}, axis, [](auto s, auto t) {
      return std::vector<Value>{s[0] + t[0]};
    })[0];
    start = end - given;
  } else {
    int64_t segments = given.dim(axis) - 1;
    start = b.SliceDim(given, axis, 0, segments);
    end = b.SliceDim(given, axis, 1, segments + 1);
  }
  Ints bounds = start.dims();
  bounds.resize(data.rank() + 1, 1);
  start = b.Reshape(start, bounds);
  end = b.Reshape(end, bounds);
  Ints elements(data.rank() + 1, 1);
  elements[axis + 1] = data.dim(axis);
  Value position = b.Reshape(b.Iota(data.dim(axis)), elements);
  return {axis, b.And(b.Ge(position, start), b.Lt(position, end)), end - start};
}

double Neutral(std::string_view reduce) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (reduce == "max") return -kInf;
  if (reduce == "min") return kInf;
  return reduce == "prod" ? 1.0 : 0.0;
}

Value Combine(Builder& b, std::string_view reduce, Value s, Value t) {
  if (reduce == "max") return b.Max(s, t);
  if (reduce == "min") return b.Min(s, t);
  return reduce == "prod" ? s * t : s + t;
}

Value SegmentReduce(Builder& b, Value data, std::string_view reduce, std::optional<Value> lengths,
                    std::optional<Value> /*indices*/, std::optional<Value> offsets, int64_t /*axis*/, bool /*unsafe*/,
                    std::optional<Scalar> initial) {
  Segments segments = SegmentsOf(b, data, lengths, offsets);
  Value masked = b.Select(segments.member, b.Unsqueeze(data, segments.axis), Neutral(reduce));
  Ints over{segments.axis + 1};
  Value result = reduce == "max"    ? b.Max(masked, over, false)
                 : reduce == "min"  ? b.Min(masked, over, false)
                 : reduce == "prod" ? b.Prod(masked, over, false)
                                    : b.Sum(masked, over, false);
  if (initial) result = Combine(b, reduce, result, b.Const(initial->ToDouble(), result.dtype()));
  if (reduce == "mean") {
    Value length = b.Cast(b.Sum(segments.length, over, false), result.dtype());
    // An empty segment gives the initial value, NaN without one.
    result = result / (initial ? b.Max(length, 1.0) : length);
  }
  return result;
}
LOWER("segment_reduce", TypedAsFirst<SegmentReduce>::Apply, kExact);

// max and min share the gradient among the elements equal to the result (or NaN); prod takes the product of the others.
Value SegmentReduceGrad(Builder& b, Value grad, Value output, Value data, std::string_view reduce,
                        std::optional<Value> lengths, std::optional<Value> offsets, int64_t /*axis*/,
                        std::optional<Scalar> initial) {
  Segments segments = SegmentsOf(b, data, lengths, offsets);
  Ints elements{segments.axis + 1};
  Value g = b.Unsqueeze(grad, segments.axis + 1), x = b.Unsqueeze(data, segments.axis);
  Value share = g;
  if (reduce == "mean") {
    share = g / b.Cast(b.Max(segments.length, 1.0), g.dtype());
  } else if (reduce == "max" || reduce == "min") {
    Value hit = b.And(segments.member, b.Or(b.IsNan(x), b.Eq(x, b.Unsqueeze(output, segments.axis + 1))));
    Value hits = b.Cast(hit, g.dtype());
    share = b.Select(hit, g / b.Sum(hits, elements), 0.0);
  } else if (reduce == "prod") {
    Value masked = b.Select(segments.member, x, 1.0);
    // Products of what lies before and after each element, so that zeros need no division.
    auto scan = [&](bool reverse) {
      auto times = [](auto s, auto t) { return std::vector<Value>{s[0] * t[0]}; };
      return b.AssociativeScan(std::array{masked}, elements[0], times, reverse)[0];
    };
    int64_t n = data.dim(segments.axis);
    Ints low(masked.rank(), 0), high(masked.rank(), 0);
    auto shift = [&](Value v, int64_t by) {
      low[elements[0]] = by;
      high[elements[0]] = -by;
      return b.Pad(v, b.Const(1.0, v.dtype()), low, high);
    };
    share = n == 0 ? masked : g * shift(scan(false), 1) * shift(scan(true), -1);
    if (initial) share = share * initial->ToDouble();
  }
  return b.Sum(b.Select(segments.member, share, 0.0), Ints{segments.axis}, false);
}
LOWER("_segment_reduce_backward", TypedAsFirst<SegmentReduceGrad>::Apply, kExact);

}  // namespace
}  // namespace tpu::lowering
