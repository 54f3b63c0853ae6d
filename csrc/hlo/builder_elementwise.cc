// Element types and elementwise operations of one operand.
#include <limits>

#include "hlo/builder_text.h"

namespace tpu::hlo {

Value Builder::Cast(Value x, DType to) {
  DType from = x.dtype();
  if (from == to) return x;
  if (IsBool(to)) return Cmp(Compare::kNe, x, ConstInt(0, from));
  if (IsComplex(from) && !IsComplex(to)) return Cast(Real(x), to);
  if (IsComplex(to) && !IsComplex(from)) x = Cast(x, RealOf(to));
  // PyTorch goes through float32 between its narrow floats and everything else.
  bool through_f32 = (IsFloat8(from) && to != DType::kF32) || (IsHalf(to) && from != DType::kF32 && !IsBool(from)) ||
                     (IsFloat8(to) && IsBool(from));
  if (through_f32) x = Cast(x, DType::kF32);
  from = x.dtype();
  if (IsFloat(from) && IsInteger(to)) {
    // C's conversion keeps the low bits of the truncated number; XLA's saturates.
    if (ItemSize(to) < 4) {
      x = Cast(x, DType::kI32);
    } else if (to == DType::kU32) {
      x = Cast(x, DType::kI64);
    } else if (to == DType::kU64) {
      Value wrapped = Cast(Cast(x, DType::kI64), DType::kU64);
      Text text(*this, "stablehlo.convert ");
      Type type{to, x.dims()};
      text << x;
      text.Signature(std::span(&x, 1), type);
      return Select(Lt(x, 0.0), wrapped, Emit(std::move(text), type));
    }
  }
  if (x.dtype() == to) return x;
  Type type{to, x.dims()};
  Text text(*this, "stablehlo.convert ");
  text << x;
  text.Signature(std::span(&x, 1), type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::Bitcast(Value x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Type type{dtype, x.dims()};
  auto from = static_cast<int64_t>(ItemSize(x.dtype())), to = static_cast<int64_t>(ItemSize(dtype));
  if (IsBool(x.dtype()) || IsBool(dtype)) Fail("Bitcast", "element types other than bool", ToString(x.type()));
  if (from > to) type.dims.push_back(from / to);
  if (from < to) {
    if (x.rank() == 0 || x.dim(-1) != to / from)
      Fail("Bitcast", "a last dimension of size " + std::to_string(to / from), ToString(x.type()));
    type.dims.pop_back();
  }
  Text text(*this, "stablehlo.bitcast_convert ");
  text << x;
  text.Signature(std::span(&x, 1), type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::Complex(Value re, Value im) {
  std::tie(re, im) = Unify("Complex", re, im);
  if (re.dtype() != DType::kF64) {
    re = Cast(re, DType::kF32);
    im = Cast(im, DType::kF32);
  }
  Type type{ComplexOf(re.dtype()), re.dims()};
  Value operands[] = {re, im};
  Text text(*this, "stablehlo.complex ");
  text.Values(operands) << " : " << type;
  return Emit(std::move(text), std::move(type));
}

Value Builder::Real(Value x) {
  if (!IsComplex(x.dtype())) return x;
  Type type{RealOf(x.dtype()), x.dims()};
  Text text(*this, "stablehlo.real ");
  text << x;
  text.Signature(std::span(&x, 1), type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::Imag(Value x) {
  if (!IsComplex(x.dtype())) return ZerosLike(x);
  Type type{RealOf(x.dtype()), x.dims()};
  Text text(*this, "stablehlo.imag ");
  text << x;
  text.Signature(std::span(&x, 1), type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::Conj(Value x) { return IsComplex(x.dtype()) ? Complex(Real(x), Neg(Imag(x))) : x; }

Value Builder::Unary(std::string_view op, Value x) {
  Type type = x.type();
  Text text(*this, op);
  text << ' ' << x << " : " << type;
  return Emit(std::move(text), std::move(type));
}

Value Builder::FloatUnary(std::string_view op, Value x, bool allow_complex) {
  if (!IsFloat(x.dtype()) && !(allow_complex && IsComplex(x.dtype())))
    Fail(op, allow_complex ? "a float or complex operand" : "a float operand", ToString(x.type()));
  return Unary(op, x);
}

Value Builder::Rounding(std::string_view op, Value x) {
  if (IsBool(x.dtype()) || IsInteger(x.dtype())) return x;
  return FloatUnary(op, x, false);
}

Value Builder::Abs(Value x) {
  if (IsBool(x.dtype()) || IsUnsigned(x.dtype())) return x;
  if (!IsComplex(x.dtype())) return Unary("stablehlo.abs", x);
  Type type{RealOf(x.dtype()), x.dims()};
  Text text(*this, "stablehlo.abs ");
  text << x;
  text.Signature(std::span(&x, 1), type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::Neg(Value x) { return IsBool(x.dtype()) ? x : Unary("stablehlo.negate", x); }
Value Builder::Exp(Value x) { return FloatUnary("stablehlo.exponential", x); }
Value Builder::Expm1(Value x) { return FloatUnary("stablehlo.exponential_minus_one", x); }
Value Builder::Log(Value x) { return FloatUnary("stablehlo.log", x); }
Value Builder::Log1p(Value x) { return FloatUnary("stablehlo.log_plus_one", x); }
Value Builder::Sqrt(Value x) { return FloatUnary("stablehlo.sqrt", x); }
Value Builder::Rsqrt(Value x) { return FloatUnary("stablehlo.rsqrt", x); }
Value Builder::Cbrt(Value x) { return FloatUnary("stablehlo.cbrt", x, false); }
Value Builder::Sin(Value x) { return FloatUnary("stablehlo.sine", x); }
Value Builder::Cos(Value x) { return FloatUnary("stablehlo.cosine", x); }
Value Builder::Tan(Value x) { return FloatUnary("stablehlo.tan", x); }
Value Builder::Tanh(Value x) { return FloatUnary("stablehlo.tanh", x); }
Value Builder::Logistic(Value x) { return FloatUnary("stablehlo.logistic", x); }
Value Builder::Floor(Value x) { return Rounding("stablehlo.floor", x); }
Value Builder::Ceil(Value x) { return Rounding("stablehlo.ceil", x); }
Value Builder::RoundEven(Value x) { return Rounding("stablehlo.round_nearest_even", x); }

Value Builder::Trunc(Value x) {
  if (IsBool(x.dtype()) || IsInteger(x.dtype())) return x;
  return Select(Lt(x, 0.0), Ceil(x), Floor(x));
}

Value Builder::Sign(Value x) {
  if (IsBool(x.dtype())) return x;
  if (IsUnsigned(x.dtype())) return Cast(Ne(x, 0.0), x.dtype());
  return Unary("stablehlo.sign", x);
}

Value Builder::Not(Value x) {
  if (!IsBool(x.dtype()) && !IsInteger(x.dtype())) Fail("Not", "a bool or integer operand", ToString(x.type()));
  return Unary("stablehlo.not", x);
}

Value Builder::PopCount(Value x) {
  if (!IsInteger(x.dtype())) Fail("PopCount", "an integer operand", ToString(x.type()));
  return Unary("stablehlo.popcnt", x);
}

Value Builder::CountLeadingZeros(Value x) {
  if (!IsInteger(x.dtype())) Fail("CountLeadingZeros", "an integer operand", ToString(x.type()));
  return Unary("stablehlo.count_leading_zeros", x);
}

Value Builder::IsFinite(Value x) {
  if (IsComplex(x.dtype())) return And(IsFinite(Real(x)), IsFinite(Imag(x)));
  if (!IsFloat(x.dtype())) return Full(x.dims(), 1.0, DType::kBool);
  if (IsFloat8(x.dtype())) x = Cast(x, DType::kF32);
  Type type{DType::kBool, x.dims()};
  Text text(*this, "stablehlo.is_finite ");
  text << x;
  text.Signature(std::span(&x, 1), type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::IsNan(Value x) {
  if (!IsFloat(x.dtype()) && !IsComplex(x.dtype())) return Full(x.dims(), 0.0, DType::kBool);
  return Ne(x, x);
}

Value Builder::IsInf(Value x) {
  if (IsComplex(x.dtype())) return Or(IsInf(Real(x)), IsInf(Imag(x)));
  if (!IsFloat(x.dtype())) return Full(x.dims(), 0.0, DType::kBool);
  if (IsFloat8(x.dtype())) x = Cast(x, DType::kF32);
  return Eq(Abs(x), std::numeric_limits<double>::infinity());
}

Value Builder::Square(Value x) { return Mul(x, x); }
Value Builder::Reciprocal(Value x) { return Div(ConstLike(1.0, x), x); }

namespace {

// XLA's own forms take exp(x + log(1/2)), whose error grows with x. Here h = exp(|x|/2), so that h*h/2 overflows only where
// the result does; near zero chlo's sinh, from expm1, is exact.
Value Hyperbolic(Builder& b, Value x, Value near_zero) {
  Value h = b.Exp(b.Abs(x) * 0.5);
  Value grown = h * 0.5 * h, shrunk = 0.5 / h / h;
  if (!near_zero.valid()) return grown + shrunk;
  Value far = grown - shrunk;
  return b.Select(b.Lt(b.Abs(x), 1.0), near_zero, b.Select(b.Lt(x, 0.0), -far, far));
}

}  // namespace

Value Builder::Chlo(std::string_view op, std::initializer_list<Value> operands) {
  if (op == "cosh" && operands.size() == 1 && IsFloat(operands.begin()->dtype()))
    return Hyperbolic(*this, *operands.begin(), {});
  std::string name = "chlo.";
  name += op;
  if (operands.size() == 1) {
    Value x = *operands.begin();
    if (!IsFloat(x.dtype()) && !IsComplex(x.dtype())) Fail(name, "a float or complex operand", ToString(x.type()));
    Type type = x.type();
    Text text(*this, name);
    text << ' ' << x << " : " << type << " -> " << type;
    Value result = Emit(std::move(text), std::move(type));
    return op == "sinh" && IsFloat(x.dtype()) ? Hyperbolic(*this, x, result) : result;
  }
  if (operands.size() != 2) Fail(name, "one or two operands", std::to_string(operands.size()));
  auto [a, b] = Unify(name, operands.begin()[0], operands.begin()[1]);
  if (!IsFloat(a.dtype())) Fail(name, "float operands", ToString(a.type()));
  Type type = a.type();
  Value both[] = {a, b};
  Text text(*this, name);
  text << ' ';
  text.Values(both) << " : " << type << ", " << type << " -> " << type;
  return Emit(std::move(text), std::move(type));
}

}  // namespace tpu::hlo
