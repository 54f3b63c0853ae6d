// Functions of one number.

#include <cmath>

#include "lowering/elementwise.h"

namespace tpu::lowering {
namespace {

template <const char* Op>
Value ChloUnary(Builder& b, Value x) {
  return b.Chlo(Op, {x});
}

// Rounding leaves integers alone.
template <Value (Builder::*F)(Value)>
Value Rounding(Builder& b, Value x) {
  return IsFloat(x.dtype()) ? (b.*F)(x) : x;
}

Value Abs(Builder& b, Value x) { return IsUnsigned(x.dtype()) || IsBool(x.dtype()) ? x : b.Abs(x); }

// Of NaN 0, as PyTorch has it.
Value Sign(Builder& b, Value x) {
  if (IsBool(x.dtype())) return x;
  if (IsUnsigned(x.dtype())) return b.Min(x, 1.0);
  if (!IsFloat(x.dtype())) return b.Sign(x);
  return b.Cast(b.Gt(x, 0.0), x.dtype()) - b.Cast(b.Lt(x, 0.0), x.dtype());
}

// x / |x|, and 0 for 0.
Value Sgn(Builder& b, Value x) {
  if (!IsComplex(x.dtype())) return Sign(b, x);
  Value modulus = b.Abs(x);
  Value zero = b.Eq(modulus, 0.0);
  Value safe = b.Select(zero, 1.0, modulus);
  return b.Select(zero, b.ZerosLike(x), b.Complex(b.Real(x) / safe, b.Imag(x) / safe));
}

Value Exp2(Builder& b, Value x) {
  if (IsComplex(x.dtype())) return b.Exp(x * kLn2);
  return b.Pow(b.ConstLike(2.0, x), x);
}

// A complex quotient would turn the infinity of log 0 into NaN.
Value LogTo(Builder& b, Value x, double log_base) {
  Value log = b.Log(x);
  if (!IsComplex(x.dtype())) return log / log_base;
  return b.Complex(b.Real(log) / log_base, b.Imag(log) / log_base);
}
Value Log2(Builder& b, Value x) { return LogTo(b, x, kLn2); }
Value Log10(Builder& b, Value x) { return LogTo(b, x, kLn10); }
Value Frac(Builder& b, Value x) { return x - b.Trunc(x); }
Value Relu(Builder& b, Value x) { return b.Max(x, 0.0); }
Value Deg2Rad(Builder&, Value x) { return x * (kPi / 180.0); }
Value Rad2Deg(Builder&, Value x) { return x * (180.0 / kPi); }

// sin(pi x) / (pi x), and 1 at 0.
Value Sinc(Builder& b, Value x) {
  Value zero = b.Eq(x, 0.0);
  Value y = b.Select(zero, 1.0, x * kPi);
  return b.Select(zero, 1.0, b.Sin(y) / y);
}

// Half to even at the given decimal, as PyTorch does: no correction for the products' own rounding.
Value RoundDecimals(Builder& b, Value x, int64_t decimals) {
  if (!IsFloat(x.dtype())) return x;
  double scale = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  if (decimals == 0) return b.RoundEven(x);
  return decimals > 0 ? b.RoundEven(x * scale) / scale : b.RoundEven(x / scale) * scale;
}

Value IsInf(Builder& b, Value x) {
  if (IsComplex(x.dtype())) return b.Or(b.IsInf(b.Real(x)), b.IsInf(b.Imag(x)));
  return IsFloat(x.dtype()) ? b.IsInf(x) : False(b, x);
}
Value IsPosInf(Builder& b, Value x) { return IsFloat(x.dtype()) ? b.Eq(x, kInf) : False(b, x); }
Value IsNegInf(Builder& b, Value x) { return IsFloat(x.dtype()) ? b.Eq(x, -kInf) : False(b, x); }

Value LogicalNot(Builder& b, Value x) { return b.Not(b.Cast(x, DType::kBool)); }

double LargestFinite(DType t) {
  switch (t) {
    case DType::kF16: return 65504.0;
    case DType::kBF16: return 0x1.FEp127;
    case DType::kF32: return std::numeric_limits<float>::max();
    case DType::kF64: return std::numeric_limits<double>::max();
    case DType::kF8E4M3FN: return 448.0;
    case DType::kF8E5M2: return 57344.0;
    case DType::kF8E4M3FNUZ: return 240.0;
    case DType::kF8E5M2FNUZ: return 57344.0;
    default: return 0.0;
  }
}

Value NanToNum(Builder& b, Value x, std::optional<double> nan, std::optional<double> posinf,
               std::optional<double> neginf) {
  if (IsComplex(x.dtype())) {
    return b.Complex(NanToNum(b, b.Real(x), nan, posinf, neginf), NanToNum(b, b.Imag(x), nan, posinf, neginf));
  }
  if (!IsFloat(x.dtype())) return x;
  double largest = LargestFinite(x.dtype());
  Value y = b.Select(b.IsNan(x), nan.value_or(0.0), x);
  y = b.Select(b.Eq(x, kInf), posinf.value_or(largest), y);
  return b.Select(b.Eq(x, -kInf), neginf.value_or(-largest), y);
}

// x = mantissa * 2^exponent with 0.5 <= |mantissa| < 1; zeros, infinities and NaN are their own mantissa.
std::pair<Value, Value> Frexp(Builder& b, Value x) {
  bool wide = x.dtype() == DType::kF64;
  int mantissa_bits = wide ? 52 : 23;
  int64_t exponent_mask = wide ? 0x7ff : 0xff;
  int64_t bias = wide ? 1022 : 126;  // of the result's range, one less than IEEE's
  double up = wide ? 0x1p54 : 0x1p25;
  DType bits_type = IntegerOfWidth(x.dtype());
  auto constant = [&](int64_t v) { return b.ConstInt(v, bits_type); };
  Value subnormal = b.Lt(b.Abs(x), wide ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min());
  Value bits = b.Bitcast(b.Select(subnormal, x * up, x), bits_type);
  Value biased = b.And(b.ShiftRightLogical(bits, constant(mantissa_bits)), constant(exponent_mask));
  Value exponent = b.Cast(biased, DType::kI32) - static_cast<double>(bias);
  exponent = b.Select(subnormal, exponent - (wide ? 54.0 : 25.0), exponent);
  Value kept = b.And(bits, constant(~(exponent_mask << mantissa_bits)));
  Value mantissa = b.Bitcast(b.Or(kept, constant(bias << mantissa_bits)), x.dtype());
  Value special = b.Or(b.Eq(x, 0.0), b.Not(b.IsFinite(x)));
  return {b.Select(special, x, mantissa), b.Select(special, 0.0, exponent)};
}

constexpr char kAcos[] = "acos", kAcosh[] = "acosh", kAsin[] = "asin", kAsinh[] = "asinh", kAtan[] = "atan",
               kAtanh[] = "atanh", kCosh[] = "cosh", kSinh[] = "sinh", kErf[] = "erf", kErfc[] = "erfc",
               kErfInv[] = "erf_inv", kLgamma[] = "lgamma";

}  // namespace

LOWER("abs", Abs, kPointwiseExact);
LOWER("acos", ChloUnary<kAcos>, kPointwise);
LOWER("acosh", ChloUnary<kAcosh>, kPointwise);
LOWER("asin", ChloUnary<kAsin>, kPointwise);
LOWER("asinh", ChloUnary<kAsinh>, kPointwise);
LOWER("atan", ChloUnary<kAtan>, kPointwise);
LOWER("atanh", ChloUnary<kAtanh>, kPointwise);
LOWER("bitwise_not", Unary<&Builder::Not>, kPointwise);
LOWER("ceil", Rounding<&Builder::Ceil>, kPointwise);
LOWER("cos", Unary<&Builder::Cos>, kPointwise);
LOWER("cosh", ChloUnary<kCosh>, kPointwise);
LOWER("deg2rad", Deg2Rad, kPointwise);
LOWER("erf", ChloUnary<kErf>, kPointwise);
LOWER("erfc", ChloUnary<kErfc>, kPointwise);
LOWER("erfinv", ChloUnary<kErfInv>, kPointwise);
LOWER("exp", Unary<&Builder::Exp>, kPointwise);
LOWER("exp2", Exp2, kPointwise);
LOWER("expm1", Unary<&Builder::Expm1>, kPointwise);
LOWER("floor", Rounding<&Builder::Floor>, kPointwise);
LOWER("frac", Frac, kPointwise);
LOWER("frexp.Tensor", Frexp, kPointwise);
LOWER("isinf", IsInf, kPointwiseExact);
LOWER("isnan", IsNan, kPointwiseExact);
LOWER("isneginf", IsNegInf, kPointwiseExact);
LOWER("isposinf", IsPosInf, kPointwiseExact);
LOWER("lgamma", ChloUnary<kLgamma>, kPointwise);
LOWER("log", Unary<&Builder::Log>, kPointwise);
LOWER("log10", Log10, kPointwise);
LOWER("log1p", Unary<&Builder::Log1p>, kPointwise);
LOWER("log2", Log2, kPointwise);
LOWER("logical_not", LogicalNot, kPointwiseExact);
LOWER("nan_to_num", NanToNum, kPointwiseExact);
LOWER("neg", Unary<&Builder::Neg>, kPointwiseExact);
LOWER("rad2deg", Rad2Deg, kPointwise);
LOWER("reciprocal", Unary<&Builder::Reciprocal>, kPointwise);
LOWER("relu", Relu, kPointwiseExact);
LOWER("round", Rounding<&Builder::RoundEven>, kPointwise);
LOWER("round.decimals", RoundDecimals, kPointwise);
LOWER("rsqrt", Unary<&Builder::Rsqrt>, kPointwise);
LOWER("sgn", Sgn, kPointwise);
LOWER("sigmoid", Unary<&Builder::Logistic>, kPointwise);
LOWER("sign", Sign, kPointwise);
LOWER("signbit", SignBit, kPointwiseExact);
LOWER("sin", Unary<&Builder::Sin>, kPointwise);
LOWER("sinc", Sinc, kPointwise);
LOWER("sinh", ChloUnary<kSinh>, kPointwise);
LOWER("sqrt", Unary<&Builder::Sqrt>, kPointwise);
LOWER("tan", Unary<&Builder::Tan>, kPointwise);
LOWER("tanh", Unary<&Builder::Tanh>, kPointwise);
LOWER("trunc", Rounding<&Builder::Trunc>, kPointwise);

}  // namespace tpu::lowering
