// Vector norms, and what is made of them: distances of tensors, renormalisation, weight normalisation.
#include "lowering/norm.h"

#include <cmath>

#include "lowering/reduction.h"

namespace tpu::lowering {
namespace {

// sum |x|^p, for finite p other than 0.
Value PowerSum(Builder& b, Value x, double p, const Ints& dims) {
  if (p == 2) return SumOver(b, SquaredModulus(b, x), dims);
  Value magnitude = b.Abs(x);
  return SumOver(b, p == 1 ? magnitude : b.Pow(magnitude, b.ConstLike(p, magnitude)), dims);
}

}  // namespace

Value Norm(Builder& b, Value x, double p, const Ints& dims) {
  if (std::isinf(p)) return p > 0 ? b.Max(b.Abs(x), dims) : b.Min(b.Abs(x), dims);
  if (p == 0) return SumOver(b, b.Cast(b.Cast(x, DType::kBool), RealOf(x.dtype())), dims);
  Value sum = PowerSum(b, x, p, dims);
  if (p == 1) return sum;
  return p == 2 ? b.Sqrt(sum) : b.Pow(sum, b.ConstLike(1 / p, sum));
}

namespace {

// In the requested type, which for complex x is given as the real type of the result.
Value InNormType(Builder& b, Value x, std::optional<DType> dtype) {
  DType result = dtype ? *dtype : Accumulator(b);
  if (IsHalf(result)) result = DType::kF32;
  return b.Cast(x, IsComplex(x.dtype()) && !IsComplex(result) ? ComplexOf(result) : result);
}

Value VectorNorm(Builder& b, Value x, Scalar p, DimList dims, bool keepdim, std::optional<DType> dtype) {
  x = InNormType(b, x, dtype);
  Value norm = Norm(b, x, p.ToDouble(), Reduced(x, dims));
  return keepdim ? norm : b.Reshape(norm, b.Expected().dims);
}
LOWER("linalg_vector_norm", VectorNorm);

Scalar Two() { return Scalar{int64_t{2}}; }
Value NormAll(Builder& b, Value x, Scalar p) { return VectorNorm(b, x, p, {}, false, std::nullopt); }
Value NormDims(Builder& b, Value x, std::optional<Scalar> p, DimList dims, bool keepdim) {
  return VectorNorm(b, x, p.value_or(Two()), dims, keepdim, std::nullopt);
}
Value NormDimsTyped(Builder& b, Value x, std::optional<Scalar> p, DimList dims, bool keepdim, DType dtype) {
  return VectorNorm(b, x, p.value_or(Two()), dims, keepdim, dtype);
}
Value NormAllTyped(Builder& b, Value x, std::optional<Scalar> p, DType dtype) {
  return VectorNorm(b, x, p.value_or(Two()), {}, false, dtype);
}
LOWER("norm.Scalar", NormAll);
LOWER("norm.ScalarOpt_dim", NormDims);
LOWER("norm.ScalarOpt_dim_dtype", NormDimsTyped);
LOWER("norm.ScalarOpt_dtype", NormAllTyped);

Value PowSum(Builder& b, Value x, Scalar p, DimList dims, bool keepdim, std::optional<DType> dtype) {
  if (dtype) x = b.Cast(x, IsHalf(*dtype) ? DType::kF32 : *dtype);
  if (!IsFloat(x.dtype()) && !IsComplex(x.dtype())) x = b.Cast(x, DType::kI64);
  Ints reduced = Reduced(x, dims);
  if (p.ToDouble() == 0) return b.Sum(b.Full(x.dims(), 1.0, RealOf(x.dtype())), reduced, keepdim);
  Value sum = PowerSum(b, x, p.ToDouble(), reduced);
  if (keepdim) return sum;
  return b.Sum(sum, reduced, false);
}
LOWER("linalg__powsum", PowSum);

Value Dist(Builder& b, Value x, Value y, Scalar p) { return VectorNorm(b, x - y, p, {}, false, std::nullopt); }
LOWER("dist", Dist);

Ints AllBut(Value x, int64_t dim) {
  Ints dims = AllDims(x);
  dims.erase(dims.begin() + dim);
  return dims;
}

// Slices along `dim` whose norm exceeds max_norm are scaled to it; 1e-7 is PyTorch's.
Value Renorm(Builder& b, Value x, Scalar p, Dim dim, Value max_norm) {
  Value norm = Norm(b, x, p.ToDouble(), AllBut(x, dim));
  Value limit = b.Cast(max_norm, norm.dtype());
  return x * b.Select(b.Gt(norm, limit), limit / (norm + 1e-7), 1.0);
}
LOWER("renorm", Renorm);

// w = v * (g / |v|), the norm over all dimensions but `dim`.
std::pair<Value, Value> WeightNorm(Builder& b, Value v, Value g, Dim dim) {
  Value norm = Norm(b, v, 2, AllBut(v, dim));
  return {v * (g / norm), b.Reshape(norm, g.dims())};
}
LOWER("_weight_norm_interface", WeightNorm);

// grad_g = sum(grad_w v) / |v|;  grad_v = g / |v| * (grad_w - v sum(grad_w v) / |v|^2)
std::pair<Value, Value> WeightNormGrad(Builder& b, Value grad_w, Value v, Value g, Value norm, Dim dim) {
  Value product = SumOver(b, grad_w * v, AllBut(v, dim));
  return {(g / norm) * (grad_w - v * (product / (norm * norm))), b.Reshape(product / norm, g.dims())};
}
LOWER("_weight_norm_interface_backward", WeightNormGrad);

}  // namespace
}  // namespace tpu::lowering
