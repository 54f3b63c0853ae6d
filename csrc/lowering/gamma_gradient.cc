// The derivative of a standard gamma draw x by its shape a at fixed probability: -(dP/da) / (dP/dx), P(a, x) being the
// regularised incomplete gamma function. (CPU and CUDA approximate it to 5e-4, and worse for shapes near 0.)
#include <limits>

#include "lowering/indexing.h"

namespace tpu::lowering {
namespace {

// P(a, x) = x^a e^-x / Gamma(a + 1) S with S = sum of t_n = x^n / ((a + 1) ... (a + n)). With T = -dS/da, the sum of
// t_n (1 / (a + 1) + ... + 1 / (a + n)), the derivative is (x / a) ((digamma(a + 1) - log x) S + T). The terms cancel
// in the upper tail, so the caller computes in float64.
Value BySeries(Builder& b, Value a, Value x) {
  constexpr double kMaxTerms = 2000;
  Value one = b.Full(a.dims(), 1.0, a.dtype()), zero = b.ZerosLike(a);
  // index, a, x, term, harmonic sum, S, T
  std::vector<Value> init{b.Const(1.0, a.dtype()), a, x, one, zero, one, zero};
  auto growing = [](Builder& b, std::span<const Value> state) {
    Value large = b.Any(b.Gt(state[3], state[5] * 1e-17), Ints{}, false);
    return b.And(b.Reshape(large, Ints{}), b.Lt(state[0], kMaxTerms));
  };
  auto add_term = [](Builder& b, std::span<const Value> state) {
    Value divisor = b.Add(state[1], state[0]);
    Value term = b.Mul(state[3], b.Div(state[2], divisor)), harmonic = b.Add(state[4], 1.0 / divisor);
    return std::vector<Value>{state[0] + 1.0,
                              state[1],
                              state[2],
                              term,
                              harmonic,
                              b.Add(state[5], term),
                              b.Add(state[6], b.Mul(term, harmonic))};
  };
  std::vector<Value> sums = b.While(init, growing, add_term);
  Value logarithm = b.Sub(b.Chlo("digamma", {a + 1.0}), b.Log(x));
  return b.Mul(b.Div(x, a), b.Add(b.Mul(logarithm, sums[5]), sums[6]));
}

// For large a: the Cornish-Fisher expansion x(z) = a + sqrt(a) z + (z^2 - 1) / 3 + (z^3 - 7 z) / (36 sqrt(a)) -
// (3 z^4 + 7 z^2 - 16) / (810 a), differentiated by a at the normal quantile z, which Newton's method finds.
Value ByExpansion(Builder& b, Value a, Value x) {
  Value root = b.Sqrt(a), ninth = 1.0 / (9.0 * a);
  // Wilson and Hilferty's cube root is a close start.
  Value z = b.Mul(3.0 * root, b.Sub(b.Cbrt(b.Div(x, a)), 1.0 - ninth));
  auto cubic = [&b](Value z) { return b.Mul(z, b.Mul(z, z) - 7.0); };
  auto quartic = [&b](Value z) {
    Value square = b.Mul(z, z);
    return b.Mul(square, 3.0 * square + 7.0) - 16.0;
  };
  constexpr int kSteps = 3;
  for (int i = 0; i < kSteps; ++i) {
    Value square = b.Mul(z, z);
    Value value = a + root * z + (square - 1.0) / 3.0 + b.Div(cubic(z), 36.0 * root) - b.Div(quartic(z), 810.0 * a);
    Value slope = root + z * (2.0 / 3) + b.Div(3.0 * square - 7.0, 36.0 * root) -
                  b.Div(b.Mul(z, 12.0 * square + 14.0), 810.0 * a);
    z = b.Sub(z, b.Div(b.Sub(value, x), slope));
  }
  return 1.0 + b.Div(z, 2.0 * root) - b.Div(cubic(z), b.Mul(72.0 * root, a)) + b.Div(quartic(z), b.Mul(810.0 * a, a));
}

Value StandardGammaGrad(Builder& b, Value shape, Value draw) {
  if (draw.numel() == 0) return draw;
  constexpr double kLarge = 100;
  Value a = b.Cast(shape, DType::kF64), x = b.Max(b.Cast(draw, DType::kF64), std::numeric_limits<double>::min());
  Value large = b.Gt(a, kLarge);
  // A draw of a shape up to 100 is never as large as 300.
  Value series = BySeries(b, b.Min(a, kLarge), b.Min(x, 300.0));
  return b.Cast(b.Select(large, ByExpansion(b, b.Max(a, kLarge), x), series), draw.dtype());
}
LOWER("_standard_gamma_grad", StandardGammaGrad, kExact);

}  // namespace
}  // namespace tpu::lowering
