// Formulas and adaptors that the pointwise families share.
#pragma once

#include <initializer_list>
#include <limits>
#include <span>

#include "lowering/lowering.h"

namespace tpu::lowering {

inline constexpr double kPi = 3.14159265358979323846;
inline constexpr double kLn2 = 0.69314718055994530942;
inline constexpr double kLn10 = 2.30258509299404568402;
inline constexpr double kSqrt2 = 1.41421356237309504880;
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A builder method as a lowering: LOWER("sin", Unary<&Builder::Sin>, kPointwise).
template <Value (Builder::*F)(Value)>
Value Unary(Builder& b, Value x) {
  return (b.*F)(x);
}
template <Value (Builder::*F)(Value, Value)>
Value Binary(Builder& b, Value x, Value y) {
  return (b.*F)(x, y);
}

// The unit roundoff of the type, as <limits> has it.
inline double Epsilon(DType t) {
  return RealOf(t) == DType::kF64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}
// The signed integer of the type's width.
inline DType IntegerOfWidth(DType t) {
  switch (ItemSize(t)) {
    case 1: return DType::kI8;
    case 2: return DType::kI16;
    case 4: return DType::kI32;
    default: return DType::kI64;
  }
}
// What a result of this type is computed in.
inline DType ComputeType(DType t) { return IsHalf(t) ? DType::kF32 : t; }

inline Value False(Builder& b, Value x) { return b.Full(x.dims(), 0.0, DType::kBool); }

// NaN in either part of a complex number.
inline Value IsNan(Builder& b, Value x) {
  if (IsComplex(x.dtype())) return b.Or(b.IsNan(b.Real(x)), b.IsNan(b.Imag(x)));
  return IsFloat(x.dtype()) ? b.IsNan(x) : False(b, x);
}

inline Value SignBit(Builder& b, Value x) {
  if (IsUnsigned(x.dtype()) || IsBool(x.dtype())) return False(b, x);
  if (!IsFloat(x.dtype())) return b.Lt(x, 0.0);
  // TPUs cannot bitcast float64; of a NaN's sign nothing is promised there.
  if (x.dtype() == DType::kF64) return b.Select(b.Eq(x, 0.0), b.Lt(b.Reciprocal(x), 0.0), b.Lt(x, 0.0));
  return b.Lt(b.Bitcast(x, IntegerOfWidth(x.dtype())), 0.0);
}

inline Value CopySign(Builder& b, Value magnitude, Value sign) {
  Value positive = b.Abs(magnitude);
  return b.Select(SignBit(b, sign), b.Neg(positive), positive);
}

// c[0] x^n + c[1] x^(n-1) + ... + c[n].
inline Value Horner(Builder& b, Value x, std::span<const double> c) {
  Value y = b.Full(x.dims(), c[0], x.dtype());
  for (double next : c.subspan(1)) y = y * x + next;
  return y;
}

// The sum of c[n-1-i] T_i(x / 2), the zero-order term halved (Clenshaw; Cephes' chbevl).
inline Value ChebyshevSeries(Builder& b, Value x, std::span<const double> c) {
  Value b0 = b.Full(x.dims(), c[0], x.dtype());
  Value b1 = b.ZerosLike(x), b2 = b1;
  for (double next : c.subspan(1)) {
    b2 = b1;
    b1 = b0;
    b0 = x * b1 - b2 + next;
  }
  return (b0 - b2) * 0.5;
}

// Whether any element holds, as a scalar: a loop's condition.
inline Value AnyOf(Builder& b, Value pred) { return b.Any(pred, Ints{}, /*keep_dims=*/false); }

// The two halves along a dimension of even size.
inline std::pair<Value, Value> Halves(Builder& b, Value x, int64_t dim) {
  int64_t half = x.dim(dim) / 2;
  return {b.SliceDim(x, dim, 0, half), b.SliceDim(x, dim, half, 2 * half)};
}

// x^exponent, special exponents by products and roots; `result` may be complex where x is not. In binary.cc.
Value PowScalar(Builder& b, Value x, const Scalar& exponent, DType result);
// x + weight (end - x). In selection.cc.
Value Lerp(Builder& b, Value x, Value end, Value weight);

}  // namespace tpu::lowering
