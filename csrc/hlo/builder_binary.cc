// Elementwise operations of two and three operands: broadcasting and promotion.
#include <tuple>

#include "hlo/builder_text.h"

namespace tpu::hlo {

std::pair<Value, Value> Builder::Unify(std::string_view op, Value a, Value b) {
  DType dtype = Promote(a.dtype(), b.dtype());
  a = Cast(a, dtype);
  b = Cast(b, dtype);
  if (a.dims() == b.dims()) return {a, b};
  Ints dims;
  try {
    dims = BroadcastDims(a.dims(), b.dims());
  } catch (const BuildError&) {
    Fail(op, "shapes that broadcast", ToString(a.type()) + " and " + ToString(b.type()));
  }
  return {BroadcastTo(a, dims), BroadcastTo(b, dims)};
}

Value Builder::Same(std::string_view op, Value a, Value b) {
  Type type = a.type();
  Text text(*this, op);
  text << ' ' << a << ", " << b << " : " << type;
  return Emit(std::move(text), std::move(type));
}

Value Builder::Binary(std::string_view op, Value a, Value b) {
  std::tie(a, b) = Unify(op, a, b);
  return Same(op, a, b);
}

// Arithmetic on bool is PyTorch's: + is or, * is and, - is xor.
Value Builder::Add(Value a, Value b) {
  std::tie(a, b) = Unify("stablehlo.add", a, b);
  return Same(IsBool(a.dtype()) ? "stablehlo.or" : "stablehlo.add", a, b);
}

Value Builder::Sub(Value a, Value b) {
  std::tie(a, b) = Unify("stablehlo.subtract", a, b);
  return Same(IsBool(a.dtype()) ? "stablehlo.xor" : "stablehlo.subtract", a, b);
}

Value Builder::Mul(Value a, Value b) {
  std::tie(a, b) = Unify("stablehlo.multiply", a, b);
  return Same(IsBool(a.dtype()) ? "stablehlo.and" : "stablehlo.multiply", a, b);
}

Value Builder::Div(Value a, Value b) {
  std::tie(a, b) = Unify("stablehlo.divide", a, b);
  if (IsBool(a.dtype())) Fail("stablehlo.divide", "numbers", ToString(a.type()));
  return Same("stablehlo.divide", a, b);
}

Value Builder::Rem(Value a, Value b) {
  std::tie(a, b) = Unify("stablehlo.remainder", a, b);
  // XLA CPU dies on complex remainders.
  if (IsBool(a.dtype()) || IsComplex(a.dtype())) Fail("stablehlo.remainder", "real numbers", ToString(a.type()));
  return Same("stablehlo.remainder", a, b);
}

Value Builder::Pow(Value a, Value b) {
  std::tie(a, b) = Unify("stablehlo.power", a, b);
  if (IsBool(a.dtype())) return Or(a, Not(b));
  return Same("stablehlo.power", a, b);
}

Value Builder::Max(Value a, Value b) {
  std::tie(a, b) = Unify("stablehlo.maximum", a, b);
  if (IsComplex(a.dtype())) Fail("stablehlo.maximum", "an ordered element type", ToString(a.type()));
  return Same(IsBool(a.dtype()) ? "stablehlo.or" : "stablehlo.maximum", a, b);
}

Value Builder::Min(Value a, Value b) {
  std::tie(a, b) = Unify("stablehlo.minimum", a, b);
  if (IsComplex(a.dtype())) Fail("stablehlo.minimum", "an ordered element type", ToString(a.type()));
  return Same(IsBool(a.dtype()) ? "stablehlo.and" : "stablehlo.minimum", a, b);
}

Value Builder::Atan2(Value a, Value b) {
  std::tie(a, b) = Unify("stablehlo.atan2", a, b);
  if (!IsFloat(a.dtype()) && !IsComplex(a.dtype()))
    Fail("stablehlo.atan2", "float or complex operands", ToString(a.type()));
  return Same("stablehlo.atan2", a, b);
}

Value Builder::Bitwise(std::string_view op, Value a, Value b) {
  std::tie(a, b) = Unify(op, a, b);
  if (!IsBool(a.dtype()) && !IsInteger(a.dtype())) Fail(op, "bool or integer operands", ToString(a.type()));
  return Same(op, a, b);
}

Value Builder::Shift(std::string_view op, Value a, Value b) {
  std::tie(a, b) = Unify(op, a, b);
  if (!IsInteger(a.dtype())) Fail(op, "integer operands", ToString(a.type()));
  return Same(op, a, b);
}

Value Builder::And(Value a, Value b) { return Bitwise("stablehlo.and", a, b); }
Value Builder::Or(Value a, Value b) { return Bitwise("stablehlo.or", a, b); }
Value Builder::Xor(Value a, Value b) { return Bitwise("stablehlo.xor", a, b); }
Value Builder::ShiftLeft(Value a, Value b) { return Shift("stablehlo.shift_left", a, b); }
Value Builder::ShiftRightArithmetic(Value a, Value b) { return Shift("stablehlo.shift_right_arithmetic", a, b); }
Value Builder::ShiftRightLogical(Value a, Value b) { return Shift("stablehlo.shift_right_logical", a, b); }

Value Builder::Cmp(Compare how, Value a, Value b) {
  static constexpr std::string_view kNames[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  std::tie(a, b) = Unify("stablehlo.compare", a, b);
  if (IsComplex(a.dtype()) && how != Compare::kEq && how != Compare::kNe)
    Fail("stablehlo.compare", "an ordered element type", ToString(a.type()));
  if (IsFloat8(a.dtype())) {
    a = Cast(a, DType::kF32);
    b = Cast(b, DType::kF32);
  }
  Type type{DType::kBool, a.dims()};
  Value operands[] = {a, b};
  Text text(*this, "stablehlo.compare ");
  text << kNames[static_cast<int>(how)] << ", ";
  text.Values(operands);
  // Left out, XLA folds signed constants as unsigned ones.
  if (IsInteger(a.dtype()) && !IsUnsigned(a.dtype())) text << ", SIGNED";
  text.Signature(operands, type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::Select(Value pred, Value on_true, Value on_false) {
  std::tie(on_true, on_false) = Unify("stablehlo.select", on_true, on_false);
  pred = Cast(pred, DType::kBool);
  if (pred.rank() != 0 && pred.dims() != on_true.dims()) {
    Ints dims = BroadcastDims(pred.dims(), on_true.dims());
    pred = BroadcastTo(pred, dims);
    on_true = BroadcastTo(on_true, dims);
    on_false = BroadcastTo(on_false, dims);
  }
  Type type = on_true.type();
  Value operands[] = {pred, on_true, on_false};
  Text text(*this, "stablehlo.select ");
  text.Values(operands) << " : " << pred.type() << ", " << type;
  return Emit(std::move(text), std::move(type));
}

Value Builder::Clamp(Value low, Value x, Value high) {
  if (IsBool(Promote(Promote(low.dtype(), x.dtype()), high.dtype()))) return Min(Max(x, low), high);
  std::tie(low, x) = Unify("stablehlo.clamp", low, x);
  std::tie(x, high) = Unify("stablehlo.clamp", x, high);
  std::tie(low, x) = Unify("stablehlo.clamp", low, x);
  if (IsComplex(x.dtype())) Fail("stablehlo.clamp", "an ordered element type", ToString(x.type()));
  Type type = x.type();
  Value operands[] = {low, x, high};
  Text text(*this, "stablehlo.clamp ");
  text.Values(operands) << " : " << type;
  return Emit(std::move(text), std::move(type));
}

Value operator+(Value a, Value b) { return a.builder().Add(a, b); }
Value operator-(Value a, Value b) { return a.builder().Sub(a, b); }
Value operator*(Value a, Value b) { return a.builder().Mul(a, b); }
Value operator/(Value a, Value b) { return a.builder().Div(a, b); }
Value operator-(Value a) { return a.builder().Neg(a); }
Value operator+(Value a, double b) { return a + a.builder().ConstLike(b, a); }
Value operator-(Value a, double b) { return a - a.builder().ConstLike(b, a); }
Value operator*(Value a, double b) { return a * a.builder().ConstLike(b, a); }
Value operator/(Value a, double b) { return a / a.builder().ConstLike(b, a); }
Value operator+(double a, Value b) { return b.builder().ConstLike(a, b) + b; }
Value operator-(double a, Value b) { return b.builder().ConstLike(a, b) - b; }
Value operator*(double a, Value b) { return b.builder().ConstLike(a, b) * b; }
Value operator/(double a, Value b) { return b.builder().ConstLike(a, b) / b; }

}  // namespace tpu::hlo
