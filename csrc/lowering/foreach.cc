// The _foreach_ operations that the harness does not derive from an operation on single tensors.

#include <cmath>

#include "lowering/elementwise.h"

namespace tpu::lowering {
namespace {

using Values = std::vector<Value>;

// The type that result i is computed in.
DType TypeOf(Builder& b, size_t i, Value x) {
  return i < b.NumExpected() ? ComputeType(b.Expected(i).dtype) : ComputeType(x.dtype());
}

template <typename F>
Values Map(Builder& b, const Values& xs, F f) {
  Values results;
  for (size_t i = 0; i < xs.size(); ++i) {
    DType t = TypeOf(b, i, xs[i]);
    results.push_back(f(i, t, b.Cast(xs[i], t)));
  }
  return results;
}

// The i-th scalar: the same for all, one of a list, or an element of a 1-D tensor.
Value ScalarAt(Builder& b, Value scalar, size_t, DType t) { return b.Cast(scalar, t); }
Value ScalarAt(Builder& b, const Values& scalars, size_t i, DType t) { return b.Cast(scalars[i], t); }
struct Packed {
  Value tensor;
};
Value ScalarAt(Builder& b, Packed packed, size_t i, DType t) {
  int64_t at = static_cast<int64_t>(i);
  return b.Reshape(b.Cast(b.SliceDim(packed.tensor, 0, at, at + 1), t), Ints{});
}

Value Addcmul(Value x, Value y, Value z, Value scale) { return x + scale * y * z; }
Value Addcdiv(Value x, Value y, Value z, Value scale) { return x + scale * y / z; }

template <auto F, typename Scalars>
Values Addc(Builder& b, const Values& xs, const Values& ys, const Values& zs, const Scalars& scalars) {
  return Map(b, xs, [&](size_t i, DType t, Value x) {
    return F(x, b.Cast(ys[i], t), b.Cast(zs[i], t), ScalarAt(b, scalars, i, t));
  });
}
template <auto F>
Values AddcScalar(Builder& b, Values xs, Values ys, Values zs, Value scale) {
  return Addc<F>(b, xs, ys, zs, scale);
}
template <auto F>
Values AddcScalars(Builder& b, Values xs, Values ys, Values zs, Values scales) {
  return Addc<F>(b, xs, ys, zs, scales);
}
template <auto F>
Values AddcTensor(Builder& b, Values xs, Values ys, Values zs, Value scales) {
  return Addc<F>(b, xs, ys, zs, Packed{scales});
}

Values LerpLists(Builder& b, Values xs, Values ends, Values weights) {
  return Map(b, xs, [&](size_t i, DType t, Value x) { return Lerp(b, x, b.Cast(ends[i], t), b.Cast(weights[i], t)); });
}
Values LerpScalar(Builder& b, Values xs, Values ends, Value weight) {
  return LerpLists(b, xs, ends, Values(xs.size(), weight));
}

template <Value (Builder::*F)(Value, Value)>
Values BinaryLists(Builder& b, Values xs, Values ys) {
  return Map(b, xs, [&](size_t i, DType t, Value x) { return (b.*F)(x, b.Cast(ys[i], t)); });
}
template <Value (Builder::*F)(Value, Value)>
Values BinaryScalar(Builder& b, Values xs, Value y) {
  return BinaryLists<F>(b, xs, Values(xs.size(), y));
}

Values PowBaked(Builder& b, Values xs, Scalar exponent) {
  return Map(b, xs, [&](size_t, DType t, Value x) { return PowScalar(b, x, exponent, t); });
}
Values PowOfScalar(Builder& b, Value base, Values exponents) {
  return Map(b, exponents, [&](size_t, DType t, Value e) { return b.Pow(b.Cast(base, t), e); });
}

// The sum of |x|^p over all elements, with the limits for p = 0 and infinities.
Value PowerSum(Builder& b, Value x, double p) {
  if (p == 0.0) return b.Sum(b.Cast(b.Ne(x, 0.0), x.dtype()), Ints{}, false);
  if (p == 1.0) return b.Sum(x, Ints{}, false);
  if (p == 2.0) return b.Sum(x * x, Ints{}, false);
  return b.Sum(b.Pow(x, b.ConstLike(p, x)), Ints{}, false);
}

Value Norm(Builder& b, Value x, double p) {
  if (std::isinf(p)) {
    if (x.numel() == 0) return b.Const(0.0, x.dtype());
    return p > 0.0 ? b.Max(x, Ints{}, false) : b.Min(x, Ints{}, false);
  }
  Value sum = PowerSum(b, x, p);
  if (p == 0.0 || p == 1.0) return sum;
  return p == 2.0 ? b.Sqrt(sum) : b.Pow(sum, b.ConstLike(1.0 / p, sum));
}

template <auto F>
Values Magnitudes(Builder& b, Values xs, Scalar p, std::optional<DType> /*dtype*/) {
  Values results;
  for (size_t i = 0; i < xs.size(); ++i) {
    Value magnitude = b.Abs(xs[i]);
    results.push_back(F(b, b.Cast(magnitude, TypeOf(b, i, magnitude)), p.ToDouble()));
  }
  return results;
}

Values Largest(Builder& b, Values xs) {
  Values results;
  for (Value x : xs) results.push_back(b.Max(x, Ints{}, false));
  return results;
}

}  // namespace

LOWER("_foreach_addcmul.Scalar", AddcScalar<Addcmul>);
LOWER("_foreach_addcmul.ScalarList", AddcScalars<Addcmul>);
LOWER("_foreach_addcmul.Tensor", AddcTensor<Addcmul>);
LOWER("_foreach_addcdiv.Scalar", AddcScalar<Addcdiv>);
LOWER("_foreach_addcdiv.ScalarList", AddcScalars<Addcdiv>);
LOWER("_foreach_addcdiv.Tensor", AddcTensor<Addcdiv>);
LOWER("_foreach_lerp.List", LerpLists);
LOWER("_foreach_lerp.Scalar", LerpScalar);
LOWER("_foreach_lerp.ScalarList", LerpLists);
LOWER("_foreach_maximum.List", BinaryLists<&Builder::Max>);
LOWER("_foreach_maximum.Scalar", BinaryScalar<&Builder::Max>);
LOWER("_foreach_maximum.ScalarList", BinaryLists<&Builder::Max>);
LOWER("_foreach_minimum.List", BinaryLists<&Builder::Min>);
LOWER("_foreach_minimum.Scalar", BinaryScalar<&Builder::Min>);
LOWER("_foreach_minimum.ScalarList", BinaryLists<&Builder::Min>);
LOWER("_foreach_clamp_min.List", BinaryLists<&Builder::Max>);
LOWER("_foreach_clamp_min.Scalar", BinaryScalar<&Builder::Max>);
LOWER("_foreach_clamp_min.ScalarList", BinaryLists<&Builder::Max>);
LOWER("_foreach_clamp_max.List", BinaryLists<&Builder::Min>);
LOWER("_foreach_clamp_max.Scalar", BinaryScalar<&Builder::Min>);
LOWER("_foreach_clamp_max.ScalarList", BinaryLists<&Builder::Min>);
LOWER("_foreach_pow.List", BinaryLists<&Builder::Pow>);
LOWER("_foreach_pow.Scalar", PowBaked);
LOWER("_foreach_pow.ScalarList", BinaryLists<&Builder::Pow>);
LOWER("_foreach_pow.ScalarAndTensor", PowOfScalar);
LOWER("_foreach_norm.Scalar", Magnitudes<Norm>);
LOWER("_foreach_powsum.Scalar", Magnitudes<PowerSum>);
LOWER("_foreach_max", Largest);

}  // namespace tpu::lowering
