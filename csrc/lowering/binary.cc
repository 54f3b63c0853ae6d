// Arithmetic of two numbers. Scalars arrive cast to the common type, so a .Scalar overload is its .Tensor twin.

#include "lowering/elementwise.h"

namespace tpu::lowering {
namespace {

// alpha x. A complex product with a real factor would turn infinities into NaN.
Value Scaled(Builder& b, Value x, Value alpha) {
  if (!IsComplex(x.dtype())) return x * alpha;
  return b.Select(b.Eq(alpha, 1.0), x, x * alpha);
}

Value AddScaled(Builder& b, Value x, Value y, Value alpha) { return x + Scaled(b, y, alpha); }
Value SubScaled(Builder& b, Value x, Value y, Value alpha) { return x - Scaled(b, y, alpha); }
Value RsubScaled(Builder& b, Value x, Value y, Value alpha) { return y - Scaled(b, x, alpha); }
Value AddRelu(Builder& b, Value x, Value y, Value alpha) { return b.Max(x + Scaled(b, y, alpha), 0.0); }

// The remainder r is nonzero and its sign is not the divisor's.
Value NeedsCorrection(Builder& b, Value r, Value divisor) {
  return b.And(b.Ne(r, 0.0), b.Ne(b.Lt(r, 0.0), b.Lt(divisor, 0.0)));
}

// floor(x / y) by way of fmod, as Python and PyTorch do: x == y * floor_divide(x, y) + remainder(x, y).
Value FloorDiv(Builder& b, Value x, Value y) {
  if (IsUnsigned(x.dtype()) || IsBool(x.dtype())) return b.Div(x, y);
  Value r = b.Rem(x, y);
  Value correct = NeedsCorrection(b, r, y);
  if (!IsFloat(x.dtype())) return b.Div(x, y) - b.Cast(correct, x.dtype());
  Value quotient = (x - r) / y;
  quotient = b.Select(correct, quotient - 1.0, quotient);
  Value floored = b.Floor(quotient);
  floored = b.Select(b.Gt(quotient - floored, 0.5), floored + 1.0, floored);
  Value plain = x / y;
  Value result = b.Select(b.Ne(quotient, 0.0), floored, CopySign(b, b.ZerosLike(plain), plain));
  return b.Select(b.Eq(y, 0.0), plain, result);
}

Value DivMode(Builder& b, Value x, Value y, std::optional<std::string_view> mode) {
  if (!mode) return b.Div(x, y);
  if (*mode == "floor") return FloorDiv(b, x, y);
  return IsFloat(x.dtype()) ? b.Trunc(b.Div(x, y)) : b.Div(x, y);
}

// The sign is the divisor's.
Value Remainder(Builder& b, Value x, Value y) {
  Value r = b.Rem(x, y);
  if (IsUnsigned(x.dtype()) || IsBool(x.dtype())) return r;
  return b.Select(NeedsCorrection(b, r, y), r + y, r);
}

// The number where the other operand is NaN.
template <Value (Builder::*F)(Value, Value)>
Value IgnoringNan(Builder& b, Value x, Value y) {
  Value r = (b.*F)(x, y);
  if (!IsFloat(x.dtype())) return r;
  return b.Select(b.IsNan(x), y, b.Select(b.IsNan(y), x, r));
}

// |big| sqrt(1 + (small / big)^2): the squares cannot overflow. An infinity wins over NaN.
Value Hypot(Builder& b, Value x, Value y) {
  Value ax = b.Abs(x), ay = b.Abs(y);
  Value big = b.Max(ax, ay), small = b.Min(ax, ay);
  Value ratio = small / b.Select(b.Eq(big, 0.0), 1.0, big);
  Value infinite = b.Or(b.IsInf(x), b.IsInf(y));
  return b.Select(infinite, kInf, big * b.Sqrt(1.0 + ratio * ratio));
}

Value Heaviside(Builder& b, Value x, Value at_zero) {
  return b.Select(b.Eq(x, 0.0), at_zero, b.Cast(b.Gt(x, 0.0), x.dtype()));
}

Value Ldexp(Builder& b, Value x, Value exponent) { return x * b.Pow(b.ConstLike(2.0, exponent), exponent); }

// x f(y), where 0 times anything but NaN is 0.
template <Value (Builder::*F)(Value)>
Value ZeroTimes(Builder& b, Value x, Value y) {
  Value r = b.Select(b.Eq(x, 0.0), b.ZerosLike(x), x * (b.*F)(y));
  return b.Select(IsNan(b, y), kNan, r);
}

// Euclid, in step on all elements.
Value Gcd(Builder& b, Value x, Value y) {
  auto magnitude = [&](Value v) { return IsUnsigned(v.dtype()) ? v : b.Abs(v); };
  return b.While(
      std::vector<Value>{magnitude(x), magnitude(y)},
      [](Builder& b, std::span<const Value> v) { return AnyOf(b, b.Ne(v[1], 0.0)); },
      [](Builder& b, std::span<const Value> v) {
        Value done = b.Eq(v[1], 0.0);
        Value rest = b.Rem(v[0], b.Select(done, 1.0, v[1]));
        return std::vector<Value>{b.Select(done, v[0], v[1]), b.Select(done, v[1], rest)};
      })[0];
}

// |x / gcd y|, in C's arithmetic: narrow integers are widened, and cut at the end.
Value Lcm(Builder& b, Value x, Value y) {
  DType t = ItemSize(x.dtype()) < 4 ? DType::kI32 : x.dtype();
  x = b.Cast(x, t);
  y = b.Cast(y, t);
  Value g = Gcd(b, x, y);
  Value none = b.Eq(g, 0.0);
  Value product = b.Div(x, b.Select(none, 1.0, g)) * y;
  return b.Select(none, 0.0, IsUnsigned(t) ? product : b.Abs(product));
}

// log(e^x + e^y) = max + log1p(e^(min - max)). Of complex operands the one with the larger real part is the max.
Value Logaddexp(Builder& b, Value x, Value y) {
  if (IsComplex(x.dtype())) {
    Value x_less = b.Lt(b.Real(x), b.Real(y));
    Value big = b.Select(x_less, y, x), small = b.Select(x_less, x, y);
    Value re = b.Real(small);
    Value same_infinity = b.And(b.IsInf(re), b.Eq(re, b.Real(big)));
    Value at_infinity = b.Select(b.Lt(re, 0.0), small, b.Log(b.Exp(small) + b.Exp(big)));
    Value r = b.Select(same_infinity, at_infinity, b.Log1p(b.Exp(small - big)) + big);
    Value nan = b.Full(re.dims(), kNan, re.dtype());
    return b.Select(b.Or(IsNan(b, x), IsNan(b, y)), b.Complex(nan, nan), r);
  }
  Value big = b.Max(x, y), small = b.Min(x, y);
  Value same_infinity = b.And(b.IsInf(x), b.Eq(x, y));
  return b.Select(same_infinity, x, big + b.Log1p(b.Exp(small - big)));
}

Value Logaddexp2(Builder& b, Value x, Value y) {
  Value big = b.Max(x, y), small = b.Min(x, y);
  Value same_infinity = b.And(b.IsInf(x), b.Eq(x, y));
  return b.Select(same_infinity, x, big + b.Log1p(b.Exp((small - big) * kLn2)) / kLn2);
}

Value NextAfter(Builder& b, Value x, Value y) { return b.Chlo("next_after", {x, y}); }

// The exponent is baked: x^2 is a product, and few programs have many exponents.
Value PowBaked(Builder& b, Value x, Scalar exponent) { return PowScalar(b, x, exponent, b.Expected().dtype); }

}  // namespace

Value PowScalar(Builder& b, Value x, const Scalar& exponent, DType result) {
  if (IsComplex(result) && !IsComplex(x.dtype())) x = b.Cast(x, result);
  DType t = x.dtype();
  if (exponent.ToComplex().imag() == 0.0) {
    double e = exponent.ToDouble();
    if (e == 0.0) return b.Full(x.dims(), 1.0, t);
    if (e == 1.0) return x;
    if (e == 2.0) return x * x;
    if (e == 3.0) return x * x * x;
    if (!IsInteger(t) && !IsBool(t)) {
      if (e == 0.5) return b.Sqrt(x);
      if (e == -0.5) return b.Rsqrt(x);
      if (e == -1.0) return b.Reciprocal(x);
      if (e == -2.0) return b.Reciprocal(x * x);
    }
  }
  return b.Pow(x, exponent.ToValue(b, t));
}

LOWER("add.Tensor", AddScaled, kPointwise);
LOWER("add.Scalar", AddScaled, kPointwise);
LOWER("sub.Tensor", SubScaled, kPointwise);
LOWER("sub.Scalar", SubScaled, kPointwise);
LOWER("rsub.Tensor", RsubScaled, kPointwise);
LOWER("rsub.Scalar", RsubScaled, kPointwise);
LOWER("_add_relu.Tensor", AddRelu, kPointwise);
LOWER("_add_relu.Scalar", AddRelu, kPointwise);
LOWER("mul.Tensor", Binary<&Builder::Mul>, kPointwise);
LOWER("mul.Scalar", Binary<&Builder::Mul>, kPointwise);
LOWER("div.Tensor", Binary<&Builder::Div>, kPointwise);
LOWER("div.Scalar", Binary<&Builder::Div>, kPointwise);
LOWER("div.Tensor_mode", DivMode, kPointwise);
LOWER("div.Scalar_mode", DivMode, kPointwise);
LOWER("floor_divide", FloorDiv, kPointwise);
LOWER("floor_divide.Scalar", FloorDiv, kPointwise);
LOWER("remainder.Tensor", Remainder, kPointwise);
LOWER("remainder.Scalar", Remainder, kPointwise);
LOWER("remainder.Scalar_Tensor", Remainder, kPointwise);
LOWER("fmod.Tensor", Binary<&Builder::Rem>, kPointwise);
LOWER("fmod.Scalar", Binary<&Builder::Rem>, kPointwise);
LOWER("pow.Tensor_Tensor", Binary<&Builder::Pow>, kPointwise);
LOWER("pow.Tensor_Scalar", PowBaked, kPointwise);
LOWER("pow.Scalar", Binary<&Builder::Pow>, kPointwise);
LOWER("maximum", Binary<&Builder::Max>, kPointwiseExact);
LOWER("minimum", Binary<&Builder::Min>, kPointwiseExact);
LOWER("fmax", IgnoringNan<&Builder::Max>, kPointwiseExact);
LOWER("fmin", IgnoringNan<&Builder::Min>, kPointwiseExact);
LOWER("atan2", Binary<&Builder::Atan2>, kPointwise);
LOWER("hypot", Hypot, kPointwise);
LOWER("copysign.Tensor", CopySign, kPointwiseExact);
LOWER("copysign.Scalar", CopySign, kPointwiseExact);
LOWER("nextafter", NextAfter, kPointwiseExact);
LOWER("ldexp.Tensor", Ldexp, kPointwise);
LOWER("heaviside", Heaviside, kPointwise);
LOWER("xlogy.Tensor", ZeroTimes<&Builder::Log>, kPointwise);
LOWER("xlogy.Scalar_Self", ZeroTimes<&Builder::Log>, kPointwise);
LOWER("xlogy.Scalar_Other", ZeroTimes<&Builder::Log>, kPointwise);
LOWER("special_xlog1py", ZeroTimes<&Builder::Log1p>, kPointwise);
LOWER("special_xlog1py.self_scalar", ZeroTimes<&Builder::Log1p>, kPointwise);
LOWER("special_xlog1py.other_scalar", ZeroTimes<&Builder::Log1p>, kPointwise);
LOWER("gcd", Gcd, kPointwise);
LOWER("lcm", Lcm, kPointwise);
LOWER("logaddexp", Logaddexp, kPointwise);
LOWER("logaddexp2", Logaddexp2, kPointwise);

}  // namespace tpu::lowering
