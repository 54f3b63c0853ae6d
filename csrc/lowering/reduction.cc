// Sums, products, extremes and their like over dimensions.
#include "lowering/reduction.h"

#include <cmath>
#include <limits>

namespace tpu::lowering {
namespace {

using Reducer = Value (Builder::*)(Value, std::span<const int64_t>, bool);

template <Reducer reduce>
Value Fold(Builder& b, Value x, std::optional<DType>) {
  return (b.*reduce)(b.Cast(x, Accumulator(b)), Ints{}, false);
}
template <Reducer reduce>
Value FoldDim(Builder& b, Value x, Dim dim, bool keepdim, std::optional<DType>) {
  return (b.*reduce)(b.Cast(x, Accumulator(b)), Reduced(x, dim), keepdim);
}
template <Reducer reduce>
Value FoldDims(Builder& b, Value x, DimList dims, bool keepdim, std::optional<DType>) {
  return (b.*reduce)(b.Cast(x, Accumulator(b)), Reduced(x, dims), keepdim);
}
LOWER("sum", Fold<&Builder::Sum>);
LOWER("sum.dim_IntList", FoldDims<&Builder::Sum>);
LOWER("prod", Fold<&Builder::Prod>);
LOWER("prod.dim_int", FoldDim<&Builder::Prod>);

Value MeanDims(Builder& b, Value x, DimList dims, bool keepdim, std::optional<DType>) {
  Ints reduced = Reduced(x, dims);
  return b.Sum(b.Cast(x, Accumulator(b)), reduced, keepdim) / static_cast<double>(SizeOf(x, reduced));
}
LOWER("mean.dim", MeanDims);

Value Mean(Builder& b, Value x, std::optional<DType> dtype) { return MeanDims(b, x, {}, false, dtype); }
LOWER("mean", Mean);

Value NanSum(Builder& b, Value x, DimList dims, bool keepdim, std::optional<DType>) {
  Value y = b.Cast(x, Accumulator(b));
  return b.Sum(b.Select(IsNanOrFalse(b, y), 0.0, y), Reduced(x, dims), keepdim);
}
LOWER("nansum", NanSum);

Value CountNonzeroDims(Builder& b, Value x, DimList dims) {
  return b.Sum(b.Cast(b.Cast(x, DType::kBool), DType::kI64), Reduced(x, dims), false);
}
LOWER("count_nonzero.dim_IntList", CountNonzeroDims);

Value CountNonzero(Builder& b, Value x, std::optional<Dim> dim) {
  return CountNonzeroDims(b, x, dim ? DimList{{dim->value}, true} : DimList{});
}
LOWER("count_nonzero", CountNonzero);

template <Reducer reduce>
Value Test(Builder& b, Value x) {
  return (b.*reduce)(b.Cast(x, DType::kBool), Ints{}, false);
}
template <Reducer reduce>
Value TestDim(Builder& b, Value x, Dim dim, bool keepdim) {
  return (b.*reduce)(b.Cast(x, DType::kBool), Reduced(x, dim), keepdim);
}
// An empty list reduces nothing; an absent one everything.
template <Reducer reduce>
Value TestDims(Builder& b, Value x, DimList dims, bool keepdim) {
  Value truth = b.Cast(x, DType::kBool);
  return dims.given && dims.dims.empty() ? truth : (b.*reduce)(truth, Reduced(x, dims), keepdim);
}
LOWER("all", Test<&Builder::All>);
LOWER("all.dim", TestDim<&Builder::All>);
LOWER("all.dims", TestDims<&Builder::All>);
LOWER("any", Test<&Builder::Any>);
LOWER("any.dim", TestDim<&Builder::Any>);
LOWER("any.dims", TestDims<&Builder::Any>);
LOWER("_is_all_true", Test<&Builder::All>);
LOWER("_is_any_true", Test<&Builder::Any>);

using Extreme = Value (*)(Builder&, Value, const Ints&, bool);
template <Extreme extreme>
Value ExtremeDims(Builder& b, Value x, DimList dims, bool keepdim) {
  return extreme(b, x, Reduced(x, dims), keepdim);
}
void RequireElements(Value x) {
  if (x.numel() > 0) return;
  throw hlo::BuildError("expected a tensor with elements, found " + hlo::ToString(x.type()) +
                        ". Without any there is no extreme; give the dim to reduce.");
}
template <Extreme extreme>
Value ExtremeAll(Builder& b, Value x) {
  RequireElements(x);
  return extreme(b, x, {}, false);
}
LOWER("amax", ExtremeDims<MaxOver>);
LOWER("amin", ExtremeDims<MinOver>);
LOWER("max", ExtremeAll<MaxOver>);
LOWER("min", ExtremeAll<MinOver>);

std::pair<Value, Value> AMinMax(Builder& b, Value x, std::optional<Dim> dim, bool keepdim) {
  if (!dim) RequireElements(x);
  Ints dims = dim ? Reduced(x, *dim) : Ints{};
  return {MinOver(b, x, dims, keepdim), MaxOver(b, x, dims, keepdim)};
}
LOWER("aminmax", AMinMax);

std::pair<Value, Value> MinMaxAll(Builder& b, Value x) { return AMinMax(b, x, std::nullopt, false); }
std::pair<Value, Value> MinMaxDim(Builder& b, Value x, Dim dim, bool keepdim) { return AMinMax(b, x, dim, keepdim); }
LOWER("_aminmax", MinMaxAll);
LOWER("_aminmax.dim", MinMaxDim);

// Exclusive or of the elements' 64 bits: floating point numbers as float64, integers sign-extended. Mode 0 is the only one.
Value HashTensor(Builder& b, Value x, DimList dims, bool keepdim, int64_t mode) {
  if (mode != 0) throw hlo::BuildError("Unknown hash_tensor mode: " + std::to_string(mode));
  Value bits = IsFloat(x.dtype()) ? b.Bitcast(b.Cast(x, DType::kF64), DType::kU64) : b.Cast(x, DType::kU64);
  Ints reduced = Reduced(x, dims);
  if (reduced.empty()) return bits;
  Value hash =
      b.Reduce(std::vector<Value>{bits}, std::vector<Value>{b.ConstInt(0, DType::kU64)}, reduced,
               [](Builder& body, std::span<const Value> v) { return std::vector<Value>{body.Xor(v[0], v[1])}; })[0];
  return keepdim ? b.Reshape(hash, b.Expected().dims) : hash;
}
LOWER("hash_tensor", HashTensor);

// max + log(sum(exp(x - max))); an infinite max counts as 0, and complex numbers are led by their real part.
Value LogSumExp(Builder& b, Value x, DimList dims, bool keepdim) {
  x = b.Cast(x, Accumulator(b));
  Ints reduced = Reduced(x, dims);
  Value shift = b.Max(b.Real(x), reduced);
  shift = b.Select(b.IsFinite(shift), shift, b.Select(b.IsNan(shift), shift, 0.0));
  Value result = b.Log(b.Sum(b.Exp(x - shift), reduced)) + shift;
  return keepdim ? result : b.Reshape(result, b.Expected().dims);
}
LOWER("logsumexp", LogSumExp);

// The diagonal of [m, n] is every (n + 1)th element of the flat array.
Value Trace(Builder& b, Value x) {
  int64_t n = x.dim(1), size = std::min(x.dim(0), n);
  Value flat = b.Cast(b.Flatten(x), Accumulator(b));
  Value diagonal = size == 0 ? b.Zeros({flat.dtype(), {0}}) : b.SliceDim(flat, 0, 0, (size - 1) * (n + 1) + 1, n + 1);
  return b.Sum(diagonal, Ints{0}, false);
}
LOWER("trace", Trace);

// --- variance: sum |x - mean|^2 / max(0, count - correction)
struct Variance {
  Value mean, variance;
};
Variance VarianceOf(Builder& b, Value x, const DimList& dims, const std::optional<Scalar>& correction, bool keepdim) {
  Ints reduced = Reduced(x, dims);
  double count = static_cast<double>(SizeOf(x, reduced));
  Value mean = b.Sum(x, reduced) / count;
  double degrees = std::max(0.0, count - (correction ? correction->ToDouble() : 1.0));
  Value variance = b.Sum(SquaredModulus(b, x - mean), reduced, keepdim) / degrees;
  return {keepdim ? mean : b.Reshape(mean, variance.dims()), variance};
}

Value Var(Builder& b, Value x, DimList dims, std::optional<Scalar> correction, bool keepdim) {
  return VarianceOf(b, x, dims, correction, keepdim).variance;
}
Value Std(Builder& b, Value x, DimList dims, std::optional<Scalar> correction, bool keepdim) {
  return b.Sqrt(Var(b, x, dims, correction, keepdim));
}
std::pair<Value, Value> VarMean(Builder& b, Value x, DimList dims, std::optional<Scalar> correction, bool keepdim) {
  auto [mean, variance] = VarianceOf(b, x, dims, correction, keepdim);
  return {variance, mean};
}
std::pair<Value, Value> StdMean(Builder& b, Value x, DimList dims, std::optional<Scalar> correction, bool keepdim) {
  auto [mean, variance] = VarianceOf(b, x, dims, correction, keepdim);
  return {b.Sqrt(variance), mean};
}
LOWER("var.correction", Var);
LOWER("std.correction", Std);
LOWER("var_mean.correction", VarMean);
LOWER("std_mean.correction", StdMean);

}  // namespace
}  // namespace tpu::lowering
