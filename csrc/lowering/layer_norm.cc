// Normalisation over trailing dimensions and over groups of channels, forward and backward.

#include "lowering/elementwise.h"
#include "lowering/normalization.h"

namespace tpu::lowering {
namespace {

struct Split {
  Ints outer, inner;  // dimensions before and within normalized_shape
  Split(Value x, const Ints& normalized_shape) : inner(AllDims(x)) {
    auto middle = inner.end() - static_cast<int64_t>(normalized_shape.size());
    outer.assign(inner.begin(), middle);
    inner.erase(inner.begin(), middle);
  }
};
// Statistics as [outer..., 1...], from whatever PyTorch stored.
Value Statistic(Builder& b, Value v, Value x, const Split& split) {
  Ints dims = x.dims();
  for (int64_t d : split.inner) dims[d] = 1;
  return b.Reshape(v, dims);
}
// An array of the reduced dimensions dropped, for parameters' gradients.
Value OverOuter(Builder& b, Value x, const Split& split) { return SumOver(b, x, split.outer, false); }

std::array<Value, 3> LayerNorm(Builder& b, Value x, Ints shape, std::optional<Value> weight, std::optional<Value> bias,
                               double eps) {
  Split split(x, shape);
  auto [mean, variance] = MomentsOver(b, x, split.inner);
  Value rstd = b.Rsqrt(variance + eps);
  return {ScaleAndShift((x - mean) * rstd, weight, bias), b.Reshape(mean, b.Expected(1).dims),
          b.Reshape(rstd, b.Expected(2).dims)};
}
LOWER("native_layer_norm", LayerNorm);

Results LayerNormGrad(Builder& b, Value grad, Value x, Ints shape, Value mean, Value rstd, std::optional<Value> weight,
                      std::optional<Value> /*bias*/, Ints mask) {
  Split split(x, shape);
  rstd = Statistic(b, rstd, x, split);
  Value xhat = (x - Statistic(b, mean, x, split)) * rstd;
  Results results(3);
  if (mask[0]) results[0] = NormalizedGrad(b, weight ? grad * *weight : grad, xhat, rstd, split.inner);
  if (mask[1] && weight) results[1] = OverOuter(b, grad * xhat, split);
  if (mask[2]) results[2] = OverOuter(b, grad, split);
  return results;
}
LOWER("native_layer_norm_backward", LayerNormGrad);

// x * rstd * weight with rstd = rsqrt(mean x^2 + eps)
std::pair<Value, Value> RmsNorm(Builder& b, Value x, Ints shape, std::optional<Value> weight,
                                std::optional<double> eps) {
  Split split(x, shape);
  Value rstd = b.Rsqrt(MeanOver(b, b.Square(x), split.inner) + eps.value_or(Epsilon(x.dtype())));
  return {ScaleAndShift(x * rstd, weight, std::nullopt), rstd};
}
LOWER("_fused_rms_norm", RmsNorm);

Results RmsNormGrad(Builder& b, Value grad, Value x, Ints shape, Value rstd, std::optional<Value> weight, Ints mask) {
  Split split(x, shape);
  rstd = Statistic(b, rstd, x, split);
  Value xhat = x * rstd;
  Results results(2);
  if (mask[0]) {
    Value g = weight ? grad * *weight : grad;
    results[0] = rstd * (g - xhat * MeanOver(b, g * xhat, split.inner));
  }
  if (mask[1] && weight) results[1] = OverOuter(b, grad * xhat, split);
  return results;
}
LOWER("_fused_rms_norm_backward", RmsNormGrad);

// --- groups: x is seen as [N, groups, C / groups, HxW], statistics are [N, groups], parameters [C]
struct Groups {
  Ints dims;
  Value Of(Builder& b, Value x) const { return b.Reshape(x, dims); }
  Value Statistic(Builder& b, Value v) const { return b.Reshape(v, Ints{dims[0], dims[1], 1, 1}); }
  Value Parameter(Builder& b, Value v) const { return b.Reshape(v, Ints{1, dims[1], dims[2], 1}); }
};
constexpr std::array<int64_t, 2> kWithinGroup = {2, 3};

std::array<Value, 3> GroupNorm(Builder& b, Value x, std::optional<Value> weight, std::optional<Value> bias, int64_t n,
                               int64_t c, int64_t hw, int64_t group, double eps) {
  Groups groups{{n, group, c / group, hw}};
  Value grouped = groups.Of(b, x);
  auto [mean, variance] = MomentsOver(b, grouped, {kWithinGroup.begin(), kWithinGroup.end()});
  Value rstd = b.Rsqrt(variance + eps);
  if (weight) weight = groups.Parameter(b, *weight);
  if (bias) bias = groups.Parameter(b, *bias);
  return {b.Reshape(ScaleAndShift((grouped - mean) * rstd, weight, bias), x.dims()), b.Reshape(mean, Ints{n, group}),
          b.Reshape(rstd, Ints{n, group})};
}
LOWER("native_group_norm", GroupNorm);

Results GroupNormGrad(Builder& b, Value grad, Value x, Value mean, Value rstd, std::optional<Value> weight, int64_t n,
                      int64_t c, int64_t hw, int64_t group, Ints mask) {
  Groups groups{{n, group, c / group, hw}};
  Value g = groups.Of(b, grad);
  rstd = groups.Statistic(b, rstd);
  Value xhat = (groups.Of(b, x) - groups.Statistic(b, mean)) * rstd;
  auto per_channel = [&](Value v) { return b.Reshape(b.Sum(v, Ints{0, 3}, false), Ints{c}); };
  Results results(3);
  if (mask[0]) {
    Value scaled = weight ? g * groups.Parameter(b, *weight) : g;
    Ints within{kWithinGroup.begin(), kWithinGroup.end()};
    results[0] = b.Reshape(NormalizedGrad(b, scaled, xhat, rstd, within), x.dims());
  }
  if (mask[1]) results[1] = per_channel(g * xhat);
  if (mask[2]) results[2] = per_channel(g);
  return results;
}
LOWER("native_group_norm_backward", GroupNormGrad);

}  // namespace
}  // namespace tpu::lowering
