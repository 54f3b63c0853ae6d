// Activations.

#include "lowering/elementwise.h"

namespace tpu::lowering {
namespace {

constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double kGeluCubic = 0.044715;

// x Phi(x), or with Phi's tanh approximation (Hendrycks and Gimpel, 2016).
Value Gelu(Builder& b, Value x, std::string_view approximate) {
  if (approximate == "tanh") {
    return 0.5 * x * (1.0 + b.Tanh(kSqrt2OverPi * (x + kGeluCubic * x * x * x)));
  }
  return 0.5 * x * (1.0 + b.Erf(x * (1.0 / kSqrt2)));
}

Value Silu(Builder& b, Value x) { return x * b.Logistic(x); }
Value Mish(Builder& b, Value x) { return x * b.Tanh(b.Log1p(b.Exp(x))); }

Value Elu(Builder& b, Value x, Value alpha, Value scale, Value input_scale) {
  return b.Select(b.Le(x, 0.0), b.Expm1(x * input_scale) * alpha * scale, x * scale);
}
Value Celu(Builder& b, Value x, Value alpha) { return b.Select(b.Le(x, 0.0), b.Expm1(x / alpha) * alpha, x); }

Value LeakyRelu(Builder& b, Value x, Value slope) { return b.Select(b.Gt(x, 0.0), x, x * slope); }

Value HardSigmoid(Builder& b, Value x) { return b.Min(b.Max(x + 3.0, 0.0), 6.0) / 6.0; }
Value HardSwish(Builder& b, Value x) { return x * b.Min(b.Max(x + 3.0, 0.0), 6.0) / 6.0; }
Value HardTanh(Builder& b, Value x, Value low, Value high) { return b.Min(b.Max(x, low), high); }

Value WithinLambda(Builder& b, Value x, Value lambda) { return b.And(b.Ge(x, -lambda), b.Le(x, lambda)); }
Value HardShrink(Builder& b, Value x, Value lambda) { return b.Select(WithinLambda(b, x, lambda), 0.0, x); }
Value SoftShrink(Builder& b, Value x, Value lambda) {
  Value outside = b.Select(b.Gt(x, lambda), x - lambda, x + lambda);
  return b.Select(WithinLambda(b, x, lambda), 0.0, outside);
}

// log(1 + e^(beta x)) / beta; the identity above the threshold.
Value Softplus(Builder& b, Value x, Value beta, Value threshold) {
  return b.Select(b.Gt(x * beta, threshold), x, b.Log1p(b.Exp(x * beta)) / beta);
}

Value Threshold(Builder& b, Value x, Value threshold, Value value) { return b.Select(b.Le(x, threshold), value, x); }

Value Prelu(Builder& b, Value x, Value weight) { return b.Select(b.Gt(x, 0.0), x, weight * x); }

// min(x, 0) - log1p(e^-|x|). CPU keeps the exponential for the backward; CUDA leaves the buffer empty.
std::pair<Value, Value> LogSigmoid(Builder& b, Value x) {
  Value z = b.Exp(-b.Abs(x));
  bool keeps = b.NumExpected() < 2 || b.Expected(1).dims == x.dims();
  return {b.Min(x, 0.0) - b.Log1p(z), keeps ? z : b.Zeros(b.Expected(1))};
}

Value Glu(Builder& b, Value x, Dim dim) {
  auto [a, gate] = Halves(b, x, dim);
  return a * b.Logistic(gate);
}

// d(a s) with s = sigmoid(gate): s da + a s (1 - s) dgate.
Value GluJvp(Builder& b, Value glu, Value x, Value dx, Dim dim) {
  Value s = b.Logistic(Halves(b, x, dim).second);
  auto [da, dgate] = Halves(b, dx, dim);
  return da * s + glu * (dgate - s * dgate);
}

// log(x / (1 - x)), x clamped to [eps, 1 - eps].
Value Logit(Builder& b, Value x, std::optional<double> eps) {
  if (eps && *eps >= 0.0) {
    x = b.Select(b.Lt(x, *eps), *eps, b.Select(b.Gt(x, 1.0 - *eps), 1.0 - *eps, x));
  }
  return b.Log(x / (1.0 - x));
}

// In training a random slope per non-positive element, which is the noise; else the mean slope.
std::pair<Value, Value> Rrelu(Builder& b, Value x, Value noise, Value lower, Value upper, bool training, Rng* rng) {
  DType t = x.dtype();
  lower = b.Cast(lower, t);
  upper = b.Cast(upper, t);
  if (!training) return {LeakyRelu(b, x, (lower + upper) * 0.5), noise};
  Value slope = lower + rng->Uniform(x.dims(), t) * (upper - lower);
  Value factor = b.Select(b.Le(x, 0.0), slope, 1.0);
  return {x * factor, factor};
}

}  // namespace

LOWER("gelu", Gelu, kPointwise);
LOWER("silu", Silu, kPointwise);
LOWER("mish", Mish, kPointwise);
LOWER("elu", Elu, kPointwise);
LOWER("celu", Celu, kPointwise);
LOWER("leaky_relu", LeakyRelu, kPointwise);
LOWER("hardsigmoid", HardSigmoid, kPointwise);
LOWER("hardswish", HardSwish, kPointwise);
LOWER("hardtanh", HardTanh, kPointwise);
LOWER("hardshrink", HardShrink, kPointwise);
LOWER("softshrink", SoftShrink, kPointwise);
LOWER("softplus", Softplus, kPointwise);
LOWER("threshold", Threshold, kPointwise);
LOWER("_prelu_kernel", Prelu, kPointwise);
LOWER("log_sigmoid_forward", LogSigmoid, kPointwise);
LOWER("glu", Glu);
LOWER("glu_jvp", GluJvp);
LOWER("logit", Logit, kPointwise);
LOWER("rrelu_with_noise_functional", Rrelu);

}  // namespace tpu::lowering
