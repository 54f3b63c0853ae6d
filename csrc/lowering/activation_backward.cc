// Gradients of activations: g is the gradient of the result, x the input, y the result.

#include "lowering/elementwise.h"

namespace tpu::lowering {
namespace {

constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double kInvSqrt2Pi = 0.39894228040143267794;
constexpr double kGeluCubic = 0.044715;

// With y conjugated where complex.
Value SigmoidBackward(Builder& b, Value g, Value y) { return g * b.Conj((1.0 - y) * y); }
Value TanhBackward(Builder& b, Value g, Value y) { return g * b.Conj(1.0 - y * y); }

// Phi(x) + x phi(x).
Value GeluBackward(Builder& b, Value g, Value x, std::string_view approximate) {
  if (approximate == "tanh") {
    Value t = b.Tanh(kSqrt2OverPi * (x + kGeluCubic * x * x * x));
    Value inner = kSqrt2OverPi * (1.0 + 3.0 * kGeluCubic * (x * x));
    return g * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner);
  }
  Value cdf = 0.5 * (1.0 + b.Erf(x * (1.0 / kSqrt2)));
  return g * (cdf + x * b.Exp(x * x * -0.5) * kInvSqrt2Pi);
}

Value SiluBackward(Builder& b, Value g, Value x) {
  Value s = b.Logistic(x);
  return g * s * (1.0 + x * (1.0 - s));
}

Value MishBackward(Builder& b, Value g, Value x) {
  Value t = b.Tanh(b.Log1p(b.Exp(x)));
  return g * (t + x * b.Logistic(x) * (1.0 - t * t));
}

Value EluBackward(Builder& b, Value g, Value alpha, Value scale, Value input_scale, bool is_result, Value v) {
  Value coefficient = alpha * scale;
  Value negative =
      is_result ? g * input_scale * (v + coefficient) : g * input_scale * coefficient * b.Exp(v * input_scale);
  return b.Select(b.Le(v, 0.0), negative, g * scale);
}

// The sign of the result is that of the input, as PyTorch requires slope > 0 where the result is given.
Value LeakyReluBackward(Builder& b, Value g, Value x, Value slope, bool /*self_is_result*/) {
  return b.Select(b.Gt(x, 0.0), g, g * slope);
}

Value RreluBackward(Builder& b, Value g, Value x, Value noise, Value lower, Value upper, bool training,
                    bool self_is_result) {
  // CUDA and CPU use the noise unless the slopes are practically one; the product is the same then.
  if (training) return g * noise;
  return LeakyReluBackward(b, g, x, (lower + upper) * 0.5, self_is_result);
}

Value Inside(Builder& b, Value x, Value low, Value high) { return b.And(b.Gt(x, low), b.Lt(x, high)); }

Value HardSigmoidBackward(Builder& b, Value g, Value x) {
  return b.Select(Inside(b, x, b.ConstLike(-3.0, x), b.ConstLike(3.0, x)), g / 6.0, 0.0);
}
// At -3 and 3 as CUDA: 0 and g.
Value HardSwishBackward(Builder& b, Value g, Value x) {
  Value inner = b.Select(b.Lt(x, 3.0), g * (x / 3.0 + 0.5), g);
  return b.Select(b.Le(x, -3.0), 0.0, inner);
}
Value HardTanhBackward(Builder& b, Value g, Value x, Value low, Value high) {
  return b.Select(b.Or(b.Le(x, low), b.Ge(x, high)), 0.0, g);
}
Value ShrinkBackward(Builder& b, Value g, Value x, Value lambda) {
  return b.Select(b.And(b.Ge(x, -lambda), b.Le(x, lambda)), 0.0, g);
}

Value SoftplusBackward(Builder& b, Value g, Value x, Value beta, Value threshold) {
  Value z = b.Exp(x * beta);
  return b.Select(b.Gt(x * beta, threshold), g, g * z / (z + 1.0));
}

Value ThresholdBackward(Builder& b, Value g, Value x, Value threshold) { return b.Select(b.Le(x, threshold), 0.0, g); }

std::pair<Value, Value> PreluBackward(Builder& b, Value g, Value x, Value weight) {
  Value positive = b.Gt(x, 0.0);
  return {b.Select(positive, g, weight * g), b.Select(positive, 0.0, x * g)};
}

// sigmoid(-x), by e^-|x| so that nothing overflows. The buffer holds that exponential or is empty; we need neither.
Value LogSigmoidBackward(Builder& b, Value g, Value x, Value /*buffer*/) {
  Value z = b.Exp(-b.Abs(x));
  Value ratio = z / (1.0 + z);
  return g * b.Select(b.Lt(x, 0.0), 1.0 - ratio, ratio);
}

Value GluBackward(Builder& b, Value g, Value x, Dim dim) {
  auto [a, gate] = Halves(b, x, dim);
  Value s = b.Logistic(gate);
  Value da = s * g;
  return b.Concat(std::vector<Value>{da, (1.0 - s) * da * a}, dim);
}

// The derivative of the above along (dgrad_glu, dx), given grad_x, the above.
Value GluBackwardJvp(Builder& b, Value grad_x, Value /*grad_glu*/, Value x, Value dgrad_glu, Value dx, Dim dim) {
  auto [a, gate] = Halves(b, x, dim);
  auto [da, dgate] = Halves(b, dx, dim);
  Value grad_a = Halves(b, grad_x, dim).first;
  Value s = b.Logistic(gate);
  Value ds = s * (1.0 - s) * dgate;
  Value dgrad_a = dgrad_glu * s + grad_a * (1.0 - s) * dgate;
  Value dgrad_gate = dgrad_a * a * (1.0 - s) + grad_a * da * (1.0 - s) - grad_a * a * ds;
  return b.Concat(std::vector<Value>{dgrad_a, dgrad_gate}, dim);
}

// 1 / (x (1 - x)); outside the domain NaN, or 0 where the forward clamped.
Value LogitBackward(Builder& b, Value g, Value x, std::optional<double> eps) {
  bool clamped = eps && *eps >= 0.0;
  double low = clamped ? *eps : 0.0;
  Value outside = b.Or(b.Lt(x, low), b.Gt(x, 1.0 - low));
  return b.Select(outside, clamped ? 0.0 : kNan, g / (x * (1.0 - x)));
}

}  // namespace

LOWER("sigmoid_backward", SigmoidBackward, kPointwise);
LOWER("tanh_backward", TanhBackward, kPointwise);
LOWER("gelu_backward", GeluBackward, kPointwise);
LOWER("silu_backward", SiluBackward, kPointwise);
LOWER("mish_backward", MishBackward, kPointwise);
LOWER("elu_backward", EluBackward, kPointwise);
LOWER("leaky_relu_backward", LeakyReluBackward, kPointwise);
LOWER("rrelu_with_noise_backward", RreluBackward, kPointwise);
LOWER("hardsigmoid_backward", HardSigmoidBackward, kPointwise);
LOWER("hardswish_backward", HardSwishBackward, kPointwise);
LOWER("hardtanh_backward", HardTanhBackward, kPointwise);
LOWER("hardshrink_backward", ShrinkBackward, kPointwise);
LOWER("softshrink_backward", ShrinkBackward, kPointwise);
LOWER("softplus_backward", SoftplusBackward, kPointwise);
LOWER("threshold_backward", ThresholdBackward, kPointwise);
LOWER("_prelu_kernel_backward", PreluBackward, kPointwise);
LOWER("log_sigmoid_backward", LogSigmoidBackward);
LOWER("glu_backward", GluBackward);
LOWER("glu_backward_jvp", GluBackwardJvp);
LOWER("logit_backward", LogitBackward, kPointwise);

}  // namespace tpu::lowering
