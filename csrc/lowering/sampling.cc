// Draws of indices: multinomial and random permutations.
#include <algorithm>

#include "lowering/distribution.h"
#include "lowering/indexing.h"

namespace tpu::lowering {
namespace {

// `keys` sorted along the last dimension by `before`, and where each was.
std::vector<Value> SortWithIndex(Builder& b, Value keys, Value (Builder::*before)(Value, Value)) {
  int64_t last = keys.rank() - 1;
  std::vector<Value> arrays{keys, b.Iota(keys.dims(), last)};
  return b.Sort(arrays, last, true,
                [before](Builder& b, std::span<const Value> pair) { return (b.*before)(pair[0], pair[1]); });
}

// The order of 64-bit random keys; two of 2^32 keys are equal once in 2^32.
Value Permutation(Builder& b, int64_t n, Rng* rng) {
  return SortWithIndex(b, Bits64(b, *rng, Ints{n}), &Builder::Lt)[1];
}
Value RandPerm(Builder& b, int64_t n, std::optional<DType>, Ignore, Ignore, Ignore, Rng* rng) {
  return Permutation(b, n, rng);
}
Value RandPermFrom(Builder& b, int64_t n, Rng* rng, std::optional<DType>, Ignore, Ignore, Ignore) {
  return Permutation(b, n, rng);
}
LOWER("randperm", RandPerm, kExact);
LOWER("randperm.generator", RandPermFrom, kExact);

// The number of entries of each row of `ascending` [rows, n] that are <= value, by bisection: log2 n gathers.
Value CountNotAbove(Builder& b, Value ascending, Value values) {
  int64_t n = ascending.dim(1);
  Value count = b.Full(values.dims(), 0.0, DType::kI32);
  int64_t step = 1;
  while (step * 2 <= n) step *= 2;
  for (; step > 0; step /= 2) {
    Value next = b.Add(count, b.ConstInt(step, DType::kI32));
    Value at = b.Min(next, static_cast<double>(n)) - 1.0;
    Value passes = b.And(b.Le(b.TakeAlong(ascending, 1, at), values), b.Le(next, static_cast<double>(n)));
    count = b.Select(passes, next, count);
  }
  return count;
}

// One draw, or draws without replacement: the largest of weight / exponential (the exponential race, as PyTorch does).
// Several with replacement: inversion of the cumulative weights.
Value Multinomial(Builder& b, Value weights, int64_t num_samples, bool replacement, Rng* rng) {
  Ints out = weights.dims();
  out.back() = num_samples;
  int64_t n = weights.dims().back(), rows = out.size() == 1 ? 1 : out[0];
  if (hlo::NumElements(out) == 0 || n == 0) return b.Zeros({DType::kI64, out});
  weights = b.Reshape(weights, Ints{rows, n});
  DType dtype = weights.dtype();
  if (num_samples == 1 || !replacement) {
    Value race = b.Div(weights, StandardExponential(b, *rng, weights.dims(), dtype));
    Value order = num_samples == 1 ? b.ArgMax(race, 1).second : SortWithIndex(b, race, &Builder::Gt)[1];
    return b.Reshape(b.SliceDim(order, 1, 0, num_samples), out);
  }
  auto add = [&b](std::span<const Value> low, std::span<const Value> high) {
    return std::vector<Value>{b.Add(low[0], high[0])};
  };
  Value cumulative = n == 1 ? weights : b.AssociativeScan(std::vector<Value>{weights}, 1, add).at(0);
  Value total = b.SliceDim(cumulative, 1, n - 1, n);
  Value thresholds = b.Mul(rng->Uniform(Ints{rows, num_samples}, dtype), total);
  Value drawn = b.Min(CountNotAbove(b, cumulative, thresholds), static_cast<double>(n - 1));
  return b.Reshape(b.Cast(drawn, DType::kI64), out);
}
LOWER("multinomial", Multinomial);

}  // namespace
}  // namespace tpu::lowering
