// Tensors from nothing: constants, ranges, the identity.
#include <cmath>

#include "lowering/diagonal.h"
#include "lowering/indexing.h"

namespace tpu::lowering {
namespace {

using OptionalDType = std::optional<DType>;

Value Filled(Builder& b, double value) { return b.Full(b.Expected().dims, value, b.Expected().dtype); }
Value FilledWith(Builder& b, Value value) { return b.Full(b.Expected().dims, b.Cast(value, b.Expected().dtype)); }

Value Zeros(Builder& b, Ints, OptionalDType, Ignore, Ignore, Ignore) { return Filled(b, 0); }
Value Ones(Builder& b, Ints, OptionalDType, Ignore, Ignore, Ignore) { return Filled(b, 1); }
Value Full(Builder& b, Ints, Value value, OptionalDType, Ignore, Ignore, Ignore) { return FilledWith(b, value); }
Value ZerosLike(Builder& b, Value, OptionalDType, Ignore, Ignore, Ignore, Ignore) { return Filled(b, 0); }
Value OnesLike(Builder& b, Value, OptionalDType, Ignore, Ignore, Ignore, Ignore) { return Filled(b, 1); }
Value FullLike(Builder& b, Value, Value value, OptionalDType, Ignore, Ignore, Ignore, Ignore) {
  return FilledWith(b, value);
}
Value ScalarTensor(Builder& b, Value value, OptionalDType, Ignore, Ignore, Ignore) { return FilledWith(b, value); }
LOWER("zeros", Zeros, kExact);
LOWER("ones", Ones, kExact);
LOWER("full", Full, kExact | kNumbersFit);
LOWER("zeros_like", ZerosLike, kExact);
LOWER("ones_like", OnesLike, kExact);
LOWER("full_like", FullLike, kExact | kNumbersFit);
LOWER("scalar_tensor", ScalarTensor, kExact | kNumbersFit);

Value NewZeros(Builder& b, Value, Ints, OptionalDType, Ignore, Ignore, Ignore) { return Filled(b, 0); }
Value NewOnes(Builder& b, Value, Ints, OptionalDType, Ignore, Ignore, Ignore) { return Filled(b, 1); }
Value NewFull(Builder& b, Value, Ints, Value value, OptionalDType, Ignore, Ignore, Ignore) {
  return FilledWith(b, value);
}
LOWER("new_zeros", NewZeros, kExact);
LOWER("new_ones", NewOnes, kExact);
LOWER("new_full", NewFull, kExact);

Value Identity(Builder& b) {
  Value mask = DiagonalMask(b, b.Expected().dims, hlo::Compare::kEq, 0);
  return b.BroadcastTo(b.Cast(mask, b.Expected().dtype), b.Expected().dims);
}
Value Eye(Builder& b, int64_t, OptionalDType, Ignore, Ignore, Ignore) { return Identity(b); }
Value EyeRectangle(Builder& b, int64_t, int64_t, OptionalDType, Ignore, Ignore, Ignore) { return Identity(b); }
LOWER("eye", Eye, kExact);
LOWER("eye.m", EyeRectangle, kExact);

// Float32 is enough for a range of small integers. Otherwise its rounded step would be multiplied by the index, so the
// range is computed in float64, as CPU does.
bool IsSmallInteger(const Scalar& x) {
  double value = x.ToDouble();
  return value == static_cast<double>(static_cast<int32_t>(value)) && value > -(1 << 23) && value < (1 << 23);
}

// start + i * step
Value Range(Builder& b, const Scalar& start, const Scalar& step) {
  const Type& out = b.Expected();
  int64_t size = out.dims.at(0);
  if (IsInteger(out.dtype) || IsBool(out.dtype)) {
    Value index = b.Iota(size);
    if (step.ToInt() != 1) index = b.Mul(index, b.ConstInt(step.ToInt()));
    return start.ToInt() == 0 ? index : b.Add(index, b.ConstInt(start.ToInt()));
  }
  double last = start.ToDouble() + static_cast<double>(size) * step.ToDouble();
  bool exact = IsSmallInteger(start) && IsSmallInteger(step) && std::abs(last) < (1 << 24) && size < (1 << 24);
  DType compute = exact && out.dtype != DType::kF64 ? DType::kF32 : DType::kF64;
  Value index = b.Iota(size, compute);
  return b.Add(start.ToValue(b, compute), b.Mul(index, step.ToValue(b, compute)));
}

const Scalar kZero{int64_t{0}}, kOne{int64_t{1}};

Value Arange(Builder& b, Scalar, OptionalDType, Ignore, Ignore, Ignore) { return Range(b, kZero, kOne); }
Value ArangeStart(Builder& b, Scalar start, Scalar, OptionalDType, Ignore, Ignore, Ignore) {
  return Range(b, start, kOne);
}
Value ArangeStep(Builder& b, Scalar start, Scalar, Scalar step, OptionalDType, Ignore, Ignore, Ignore) {
  return Range(b, start, step);
}
LOWER("arange", Arange, kExact);
LOWER("arange.start", ArangeStart, kExact);
LOWER("arange.start_step", ArangeStep, kExact);
LOWER("range", ArangeStart, kExact);
LOWER("range.step", ArangeStep, kExact);

// start + i * step in the first half and end - (steps - 1 - i) * step in the second, so that both ends are exact.
// Integer results are computed in float64, as CPU's are (CUDA: float32).
Value EvenlySpaced(Builder& b, Value start, Value end, int64_t steps, DType compute) {
  start = b.Cast(start, compute);
  end = b.Cast(end, compute);
  if (steps <= 1) return b.Full(Ints{steps}, start);
  Value step = b.Div(b.Sub(end, start), b.Const(static_cast<double>(steps - 1), compute));
  Value index = b.Iota(steps), back = b.Sub(b.ConstInt(steps - 1), index);
  Value rising = b.Add(start, b.Mul(step, b.Cast(index, compute)));
  Value falling = b.Sub(end, b.Mul(step, b.Cast(back, compute)));
  return b.Select(b.Lt(index, b.ConstInt(steps / 2)), rising, falling);
}

DType SpacingType(DType out) {
  if (IsComplex(out)) return out;
  return IsFloat(out) && out != DType::kF64 ? DType::kF32 : DType::kF64;
}
// An end of the interval as the result's type holds it: integers truncate first.
Value EndOf(Builder& b, const Scalar& end, DType out) { return end.ToValue(b, IsHalf(out) ? DType::kF32 : out); }
Value EndOf(Builder& b, Value end, DType out) { return b.Cast(end, IsHalf(out) ? DType::kF32 : out); }

template <typename Start, typename End>
Value Linspace(Builder& b, Start start, End end, int64_t steps, OptionalDType, Ignore, Ignore, Ignore) {
  DType out = b.Expected().dtype;
  return EvenlySpaced(b, EndOf(b, start, out), EndOf(b, end, out), steps, SpacingType(out));
}
constexpr auto LinspaceScalars = Linspace<Scalar, Scalar>;
constexpr auto LinspaceScalarTensor = Linspace<Scalar, Value>;
constexpr auto LinspaceTensorScalar = Linspace<Value, Scalar>;
constexpr auto LinspaceTensors = Linspace<Value, Value>;
LOWER("linspace", LinspaceScalars, kExact);
LOWER("linspace.Scalar_Tensor", LinspaceScalarTensor, kExact);
LOWER("linspace.Tensor_Scalar", LinspaceTensorScalar, kExact);
LOWER("linspace.Tensor_Tensor", LinspaceTensors, kExact);

template <typename Start, typename End>
Value Logspace(Builder& b, Start start, End end, int64_t steps, double base, OptionalDType, Ignore, Ignore, Ignore) {
  DType out = b.Expected().dtype, compute = SpacingType(out);
  Value exponents = EvenlySpaced(b, EndOf(b, start, out), EndOf(b, end, out), steps, compute);
  return b.Pow(b.Const(base, compute), exponents);
}
constexpr auto LogspaceScalars = Logspace<Scalar, Scalar>;
constexpr auto LogspaceScalarTensor = Logspace<Scalar, Value>;
constexpr auto LogspaceTensorScalar = Logspace<Value, Scalar>;
constexpr auto LogspaceTensors = Logspace<Value, Value>;
LOWER("logspace", LogspaceScalars, kExact);
LOWER("logspace.Scalar_Tensor", LogspaceScalarTensor, kExact);
LOWER("logspace.Tensor_Scalar", LogspaceTensorScalar, kExact);
LOWER("logspace.Tensor_Tensor", LogspaceTensors, kExact);

}  // namespace
}  // namespace tpu::lowering
