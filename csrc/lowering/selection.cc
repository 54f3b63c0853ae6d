// Choosing, bounding and mixing: where, clamp, lerp, addcmul; and whole-tensor copies.

#include "lowering/elementwise.h"

namespace tpu::lowering {
namespace {

Value Where(Builder& b, Value condition, Value x, Value y) {
  DType t = b.Expected().dtype;
  return b.Select(b.Cast(condition, DType::kBool), b.Cast(x, t), b.Cast(y, t));
}

Value MaskedFill(Builder& b, Value x, Value mask, Value value) {
  return b.Select(b.Cast(mask, DType::kBool), b.Cast(value, x.dtype()), x);
}

// The upper bound wins where the bounds cross; a NaN bound or element gives NaN.
Value Clamp(Builder& b, Value x, std::optional<Value> low, std::optional<Value> high) {
  if (low) x = b.Max(x, *low);
  return high ? b.Min(x, *high) : x;
}

Value Addcmul(Builder&, Value x, Value y, Value z, Value scale) { return x + scale * y * z; }
Value Addcdiv(Builder&, Value x, Value y, Value z, Value scale) { return x + scale * y / z; }

Value Copy(Builder& b, Value self, Value src, bool /*non_blocking*/) {
  return b.BroadcastTo(b.Cast(src, self.dtype()), self.dims());
}
Value ToCopy(Builder& b, Value x, Ignore, Ignore, Ignore, Ignore, bool /*non_blocking*/, Ignore) {
  return b.Cast(x, b.Expected().dtype);
}
Value Clone(Builder&, Value x, Ignore) { return x; }
Value Fill(Builder& b, Value self, Value value) { return b.Full(self.dims(), b.Cast(value, self.dtype())); }
Value Zero(Builder& b, Value self) { return b.ZerosLike(self); }

Value MakeComplex(Builder& b, Value re, Value im) { return b.Complex(re, im); }
Value Polar(Builder& b, Value modulus, Value angle) {
  return b.Complex(modulus * b.Cos(angle), modulus * b.Sin(angle));
}
Value Angle(Builder& b, Value x) {
  if (IsComplex(x.dtype())) return b.Atan2(b.Imag(x), b.Real(x));
  return b.Select(IsNan(b, x), x, b.Select(b.Lt(x, 0.0), b.Full(x.dims(), kPi, x.dtype()), 0.0));
}

}  // namespace

// From the nearer end, so that weight 1 gives `end` exactly.
Value Lerp(Builder& b, Value x, Value end, Value weight) {
  Value difference = end - x;
  return b.Select(b.Lt(b.Abs(weight), 0.5), x + weight * difference, end - difference * (1.0 - weight));
}

LOWER("where.self", Where, kExact);
LOWER("masked_fill.Scalar", MaskedFill, kExact | kNumbersFit | kExpandedWarns | kSamePlaces);
LOWER("masked_fill.Tensor", MaskedFill, kExact | kExpandedWarns | kSamePlaces);

LOWER("clamp", Clamp, kPointwiseExact);
LOWER("clamp.Tensor", Clamp, kPointwiseExact);
LOWER("clamp_min", Binary<&Builder::Max>, kPointwiseExact);
LOWER("clamp_min.Tensor", Binary<&Builder::Max>, kPointwiseExact);
LOWER("clamp_max", Binary<&Builder::Min>, kPointwiseExact);
LOWER("clamp_max.Tensor", Binary<&Builder::Min>, kPointwiseExact);

LOWER("addcmul", Addcmul, kPointwise);
LOWER("addcdiv", Addcdiv, kPointwise);
LOWER("lerp.Scalar", Lerp, kPointwise);
LOWER("lerp.Tensor", Lerp, kPointwise);

LOWER("copy", Copy, kExact | kSamePlaces);
LOWER("_to_copy", ToCopy, kExact);
LOWER("clone", Clone, kExact);
LOWER("fill.Scalar", Fill, kExact | kNumbersFit | kExpanded);
LOWER("fill.Tensor", Fill, kExact | kExpanded);
LOWER("zero", Zero, kExact | kExpanded);

LOWER("complex", MakeComplex, kPointwise);
LOWER("polar", Polar, kPointwise);
LOWER("angle", Angle, kPointwise);
LOWER("_conj_physical", Unary<&Builder::Conj>, kPointwiseExact);

}  // namespace tpu::lowering
