// Comparisons, logic and bits.

#include "lowering/elementwise.h"

namespace tpu::lowering {
namespace {

template <hlo::Compare How>
Value Comparison(Builder& b, Value x, Value y) {
  return b.Cmp(How, x, y);
}

template <Value (Builder::*F)(Value, Value)>
Value Logical(Builder& b, Value x, Value y) {
  return (b.*F)(b.Cast(x, DType::kBool), b.Cast(y, DType::kBool));
}

// Whether the shift lies in [0, width): elsewhere the hardware's answer is anyone's.
Value ShiftInRange(Builder& b, Value shift) {
  Value below = b.Lt(shift, static_cast<double>(ItemSize(shift.dtype()) * 8));
  return IsUnsigned(shift.dtype()) ? below : b.And(b.Ge(shift, 0.0), below);
}

// Zero when all bits are shifted out. Of floats: x 2^shift.
Value ShiftLeft(Builder& b, Value x, Value shift) {
  if (IsFloat(x.dtype())) return x * b.Pow(b.ConstLike(2.0, shift), shift);
  Value in_range = ShiftInRange(b, shift);
  return b.Select(in_range, b.ShiftLeft(x, b.Select(in_range, shift, 0.0)), 0.0);
}

// The sign when all bits are shifted out. Of floats: x 2^-shift.
Value ShiftRight(Builder& b, Value x, Value shift) {
  if (IsFloat(x.dtype())) return x / b.Pow(b.ConstLike(2.0, shift), shift);
  Value in_range = ShiftInRange(b, shift);
  double last = static_cast<double>(ItemSize(x.dtype()) * 8 - 1);
  if (IsUnsigned(x.dtype())) {
    return b.Select(in_range, b.ShiftRightLogical(x, b.Select(in_range, shift, 0.0)), 0.0);
  }
  return b.ShiftRightArithmetic(x, b.Select(in_range, shift, last));
}

// Sorted search costs log(m) steps, comparing all pairs m; up to here the pairs win.
constexpr int64_t kMostTestsCompared = 2048;

// Whether each x equals one of the sorted tests: a lower bound by bisection in powers of two.
Value FoundInSorted(Builder& b, Value x, Value tests) {
  int64_t n = tests.numel();
  int64_t step = 1;
  while (step * 2 <= n) step *= 2;
  Value position = b.Full(x.dims(), 0.0, DType::kI64);
  Value last = b.ConstInt(n - 1);
  for (; step > 0; step /= 2) {
    Value probe = position + static_cast<double>(step - 1);
    Value below = b.And(b.Le(probe, last), b.Lt(b.TakeRows(tests, b.Min(probe, last)), x));
    position = b.Select(below, position + static_cast<double>(step), position);
  }
  Value in_range = b.Le(position, last);
  return b.And(in_range, b.Eq(b.TakeRows(tests, b.Min(position, last)), x));
}

Value IsIn(Builder& b, Value x, Value tests, bool /*assume_unique*/, bool invert) {
  DType t = hlo::Promote(x.dtype(), tests.dtype());
  x = b.Cast(x, t);
  tests = b.Flatten(b.Cast(tests, t));
  Value found;
  if (tests.numel() == 0) {
    found = False(b, x);
  } else if (tests.numel() <= kMostTestsCompared) {
    found = b.Any(b.Eq(b.Unsqueeze(x, -1), tests), Ints{-1}, /*keep_dims=*/false);
  } else {
    auto less = [](Builder& b, std::span<const Value> v) {
      Value lt = b.Lt(v[0], v[1]);  // NaN sorts last
      return IsFloat(v[0].dtype()) ? b.Or(lt, b.And(b.IsNan(v[1]), b.Not(b.IsNan(v[0])))) : lt;
    };
    found = FoundInSorted(b, x, b.Sort(std::vector<Value>{tests}, 0, /*stable=*/false, less)[0]);
  }
  return invert ? b.Not(found) : found;
}

// A scalar takes part in promotion as PyTorch's wrapped numbers do: an integer does not widen a tensor's type.
Value IsInScalar(Builder& b, Value x, Value test, bool assume_unique, bool invert) {
  bool keeps = IsFloat(x.dtype()) || IsComplex(x.dtype()) || (!IsBool(x.dtype()) && !IsFloat(test.dtype()));
  return IsIn(b, x, keeps ? b.Cast(test, x.dtype()) : test, assume_unique, invert);
}
Value ScalarIsIn(Builder& b, Value x, Value tests, bool assume_unique, bool invert) {
  bool keeps = IsFloat(tests.dtype()) || (!IsBool(tests.dtype()) && !IsFloat(x.dtype()));
  return IsIn(b, keeps ? b.Cast(x, tests.dtype()) : x, tests, assume_unique, invert);
}

}  // namespace

LOWER("eq.Tensor", Comparison<hlo::Compare::kEq>, kPointwiseExact);
LOWER("eq.Scalar", Comparison<hlo::Compare::kEq>, kPointwiseExact);
LOWER("ne.Tensor", Comparison<hlo::Compare::kNe>, kPointwiseExact);
LOWER("ne.Scalar", Comparison<hlo::Compare::kNe>, kPointwiseExact);
LOWER("lt.Tensor", Comparison<hlo::Compare::kLt>, kPointwiseExact);
LOWER("lt.Scalar", Comparison<hlo::Compare::kLt>, kPointwiseExact);
LOWER("le.Tensor", Comparison<hlo::Compare::kLe>, kPointwiseExact);
LOWER("le.Scalar", Comparison<hlo::Compare::kLe>, kPointwiseExact);
LOWER("gt.Tensor", Comparison<hlo::Compare::kGt>, kPointwiseExact);
LOWER("gt.Scalar", Comparison<hlo::Compare::kGt>, kPointwiseExact);
LOWER("ge.Tensor", Comparison<hlo::Compare::kGe>, kPointwiseExact);
LOWER("ge.Scalar", Comparison<hlo::Compare::kGe>, kPointwiseExact);

LOWER("logical_and", Logical<&Builder::And>, kPointwiseExact);
LOWER("logical_or", Logical<&Builder::Or>, kPointwiseExact);
LOWER("logical_xor", Logical<&Builder::Xor>, kPointwiseExact);

LOWER("bitwise_and.Tensor", Binary<&Builder::And>, kPointwise);
LOWER("bitwise_and.Scalar", Binary<&Builder::And>, kPointwise);
LOWER("bitwise_and.Scalar_Tensor", Binary<&Builder::And>, kPointwise);
LOWER("bitwise_or.Tensor", Binary<&Builder::Or>, kPointwise);
LOWER("bitwise_or.Scalar", Binary<&Builder::Or>, kPointwise);
LOWER("bitwise_or.Scalar_Tensor", Binary<&Builder::Or>, kPointwise);
LOWER("bitwise_xor.Tensor", Binary<&Builder::Xor>, kPointwise);
LOWER("bitwise_xor.Scalar", Binary<&Builder::Xor>, kPointwise);
LOWER("bitwise_xor.Scalar_Tensor", Binary<&Builder::Xor>, kPointwise);

LOWER("bitwise_left_shift.Tensor", ShiftLeft, kPointwise);
LOWER("bitwise_left_shift.Tensor_Scalar", ShiftLeft, kPointwise);
LOWER("bitwise_left_shift.Scalar_Tensor", ShiftLeft, kPointwise);
LOWER("__lshift__.Tensor", ShiftLeft, kPointwise);
LOWER("__lshift__.Scalar", ShiftLeft, kPointwise);
LOWER("bitwise_right_shift.Tensor", ShiftRight, kPointwise);
LOWER("bitwise_right_shift.Tensor_Scalar", ShiftRight, kPointwise);
LOWER("bitwise_right_shift.Scalar_Tensor", ShiftRight, kPointwise);
LOWER("__rshift__.Tensor", ShiftRight, kPointwise);
LOWER("__rshift__.Scalar", ShiftRight, kPointwise);

LOWER("isin.Tensor_Tensor", IsIn, kExact);
LOWER("isin.Tensor_Scalar", IsInScalar, kExact);
LOWER("isin.Scalar_Tensor", ScalarIsIn, kExact);

}  // namespace tpu::lowering
