// Batch normalisation: the layer, its gradient, and the parts that synchronised batch norm is put together from.
// Statistics are per channel (dimension 1), as vectors.
#include "lowering/normalization.h"

namespace tpu::lowering {
namespace {

using MaybeValue = std::optional<Value>;

Ints AllButChannels(Value x) {
  Ints dims = AllDims(x);
  if (dims.size() > 1) dims.erase(dims.begin() + 1);
  return dims;
}
// A vector of channels, to broadcast against x.
Value PerChannel(Builder& b, Value v, Value x) {
  Ints dims(x.rank(), 1);
  dims.at(1) = x.dim(1);
  return b.Reshape(v, dims);
}
MaybeValue PerChannel(Builder& b, const MaybeValue& v, Value x) {
  return v ? MaybeValue(PerChannel(b, *v, x)) : std::nullopt;
}
Value SumToChannels(Builder& b, Value x) { return b.Sum(x, AllButChannels(x), false); }
double CountPerChannel(Value x) { return static_cast<double>(SizeOf(x, AllButChannels(x))); }

Moments ChannelMoments(Builder& b, Value x) {
  auto [mean, variance] = MomentsOver(b, x, AllButChannels(x));
  return {b.Reshape(mean, Ints{x.dim(1)}), b.Reshape(variance, Ints{x.dim(1)})};
}
Value Normalize(Builder& b, Value x, const MaybeValue& weight, const MaybeValue& bias, Value mean, Value invstd) {
  Value xhat = (x - PerChannel(b, mean, x)) * PerChannel(b, invstd, x);
  return ScaleAndShift(xhat, PerChannel(b, weight, x), PerChannel(b, bias, x));
}

Value Blend(Value running, Value fresh, double momentum) { return running * (1 - momentum) + fresh * momentum; }

struct BatchNorm {
  Value out, mean, invstd;
  MaybeValue running_mean, running_var;  // as given, or updated
};
BatchNorm Apply(Builder& b, Value x, const MaybeValue& weight, const MaybeValue& bias, MaybeValue running_mean,
                MaybeValue running_var, bool training, double momentum, double eps) {
  BatchNorm r{.out = {}, .mean = {}, .invstd = {}, .running_mean = running_mean, .running_var = running_var};
  if (training) {
    auto [mean, variance] = ChannelMoments(b, x);
    r.mean = mean;
    r.invstd = b.Rsqrt(variance + eps);
    double n = CountPerChannel(x);
    if (running_mean) r.running_mean = Blend(*running_mean, mean, momentum);
    if (running_var) r.running_var = Blend(*running_var, variance * (n / (n - 1)), momentum);
  } else {
    r.mean = running_mean.value();
    r.invstd = b.Rsqrt(running_var.value() + eps);
  }
  r.out = Normalize(b, x, weight, bias, r.mean, r.invstd);
  return r;
}
// In evaluation CUDA saves the statistics used, CPU nothing; the meta kernel decides.
Value Saved(Builder& b, Value v, size_t i) { return b.Expected(i).dims == v.dims() ? v : b.Zeros(b.Expected(i)); }

// Results beyond the schema's are the new running statistics, written back to the arguments.
Results NativeBatchNorm(Builder& b, Value x, MaybeValue weight, MaybeValue bias, MaybeValue running_mean,
                        MaybeValue running_var, bool training, double momentum, double eps) {
  BatchNorm r = Apply(b, x, weight, bias, running_mean, running_var, training, momentum, eps);
  Results results{r.out, Saved(b, r.mean, 1), Saved(b, r.invstd, 2)};
  if (training && running_mean) results.push_back(r.running_mean);
  if (training && running_var) results.push_back(r.running_var);
  return results;
}
LOWER("native_batch_norm", NativeBatchNorm);

Results Legit(Builder& b, Value x, MaybeValue weight, MaybeValue bias, Value running_mean, Value running_var,
              bool training, double momentum, double eps) {
  return NativeBatchNorm(b, x, weight, bias, running_mean, running_var, training, momentum, eps);
}
LOWER("_native_batch_norm_legit", Legit);

Results LegitNoStats(Builder& b, Value x, MaybeValue weight, MaybeValue bias, bool training, double momentum,
                     double eps) {
  return NativeBatchNorm(b, x, weight, bias, std::nullopt, std::nullopt, training, momentum, eps);
}
LOWER("_native_batch_norm_legit.no_stats", LegitNoStats);

Results LegitNoTraining(Builder& b, Value x, MaybeValue weight, MaybeValue bias, Value running_mean, Value running_var,
                        double momentum, double eps) {
  return NativeBatchNorm(b, x, weight, bias, running_mean, running_var, false, momentum, eps);
}
LOWER("_native_batch_norm_legit_no_training", LegitNoTraining);

Results LegitFunctional(Builder& b, Value x, MaybeValue weight, MaybeValue bias, Value running_mean, Value running_var,
                        bool training, double momentum, double eps) {
  BatchNorm r = Apply(b, x, weight, bias, running_mean, running_var, training, momentum, eps);
  return {r.out, Saved(b, r.mean, 1), Saved(b, r.invstd, 2), r.running_mean, r.running_var};
}
LOWER("_native_batch_norm_legit_functional", LegitFunctional);

// The _batch_norm_* forms have a fourth result, cuDNN's reserve space: empty here.
Value Reserve(Builder& b) { return b.Zeros({DType::kU8, {0}}); }

Results WithUpdate(Builder& b, Value x, MaybeValue weight, MaybeValue bias, Value running_mean, Value running_var,
                   double momentum, double eps) {
  BatchNorm r = Apply(b, x, weight, bias, running_mean, running_var, true, momentum, eps);
  return {r.out, r.mean, r.invstd, Reserve(b), r.running_mean, r.running_var};
}
LOWER("_batch_norm_with_update", WithUpdate);
LOWER("_batch_norm_with_update_functional", WithUpdate);

Results NoUpdate(Builder& b, Value x, MaybeValue weight, MaybeValue bias, MaybeValue running_mean,
                 MaybeValue running_var, double momentum, double eps) {
  bool training = !running_mean || !running_var;
  BatchNorm r = Apply(b, x, weight, bias, running_mean, running_var, training, momentum, eps);
  return {r.out, Saved(b, r.mean, 1), Saved(b, r.invstd, 2), Reserve(b)};
}
LOWER("_batch_norm_no_update", NoUpdate);

Results BatchNormGrad(Builder& b, Value grad, Value x, MaybeValue weight, MaybeValue running_mean,
                      MaybeValue running_var, MaybeValue save_mean, MaybeValue save_invstd, bool train, double eps,
                      Ints mask) {
  Value mean = train ? save_mean.value() : running_mean.value();
  Value invstd = train ? save_invstd.value() : b.Rsqrt(running_var.value() + eps);
  Value scale = PerChannel(b, invstd, x);
  Value xhat = (x - PerChannel(b, mean, x)) * scale;
  Results results(3);
  if (mask[0]) {
    Value g = weight ? grad * PerChannel(b, *weight, x) : grad;
    results[0] = train ? NormalizedGrad(b, g, xhat, scale, AllButChannels(x)) : g * scale;
  }
  if (mask[1]) results[1] = SumToChannels(b, grad * xhat);
  if (mask[2]) results[2] = SumToChannels(b, grad);
  return results;
}
LOWER("native_batch_norm_backward", BatchNormGrad);

Results BatchNormGradReserve(Builder& b, Value grad, Value x, Value weight, MaybeValue running_mean,
                             MaybeValue running_var, MaybeValue save_mean, MaybeValue save_var, bool update, double eps,
                             Ints mask, Value /*reserve*/) {
  return BatchNormGrad(b, grad, x, weight, running_mean, running_var, save_mean, save_var, update, eps, mask);
}
LOWER("batch_norm_backward", BatchNormGradReserve);

// --- synchronised batch norm. No meta kernels: element types are given here, statistics being at least float32.
std::pair<Value, Value> Stats(Builder& b, Value x, double eps) {
  auto [mean, variance] = ChannelMoments(b, Widened(b, x));
  return {mean, b.Rsqrt(variance + eps)};
}
LOWER("batch_norm_stats", Stats, kExact);

Value Elementwise(Builder& b, Value x, MaybeValue weight, MaybeValue bias, Value mean, Value invstd, double /*eps*/) {
  if (weight) weight = Widened(b, *weight);
  if (bias) bias = Widened(b, *bias);
  return b.Cast(Normalize(b, Widened(b, x), weight, bias, Widened(b, mean), Widened(b, invstd)), x.dtype());
}
LOWER("batch_norm_elemt", Elementwise, kExact);

// Merges means and inverse deviations [workers, channels] of `counts` elements each:
// mean = sum n_i m_i / n;  n var = sum n_i (v_i + (m_i - mean)^2).
Results GatherStats(Builder& b, Value mean, Value invstd, MaybeValue running_mean, MaybeValue running_var,
                    double momentum, double eps, Value counts) {
  mean = Widened(b, mean);
  Value count = b.Unsqueeze(b.Cast(counts, mean.dtype()), 1);
  Value total = b.Sum(count, Ints{0});
  Value merged = b.Sum(count * mean, Ints{0}) / total;
  Value variance = b.Square(1.0 / Widened(b, invstd)) - eps;
  Value scatter = b.Reshape(b.Sum(count * (variance + b.Square(mean - merged)), Ints{0}), Ints{mean.dim(1)});
  merged = b.Reshape(merged, Ints{mean.dim(1)});
  total = b.Reshape(total, Ints{});
  Results results{merged, b.Rsqrt(scatter / total + eps)};
  auto update = [&](Value running, Value fresh) {
    results.push_back(b.Cast(Blend(Widened(b, running), fresh, momentum), running.dtype()));
  };
  if (running_mean) update(*running_mean, merged);
  if (running_var) update(*running_var, scatter / (total - 1.0));
  return results;
}
Results GatherStatsWithCounts(Builder& b, Value /*x*/, Value mean, Value invstd, MaybeValue running_mean,
                              MaybeValue running_var, double momentum, double eps, Value counts) {
  return GatherStats(b, mean, invstd, running_mean, running_var, momentum, eps, counts);
}
Results GatherStatsOfCount(Builder& b, Value /*x*/, Value mean, Value invstd, MaybeValue running_mean,
                           MaybeValue running_var, double momentum, double eps, int64_t count) {
  Value counts = b.Full(Ints{mean.dim(0)}, static_cast<double>(count), Widened(b, mean).dtype());
  return GatherStats(b, mean, invstd, running_mean, running_var, momentum, eps, counts);
}
LOWER("batch_norm_gather_stats_with_counts", GatherStatsWithCounts, kExact);
LOWER("batch_norm_gather_stats", GatherStatsOfCount, kExact);

// {sum dy, sum dy (x - mean), grad weight, grad bias}
Results GradReduce(Builder& b, Value grad, Value x, Value mean, Value invstd, MaybeValue weight, bool input_g,
                   bool weight_g, bool bias_g) {
  Value g = Widened(b, grad), centred = Widened(b, x) - PerChannel(b, Widened(b, mean), x);
  Value sum_dy = SumToChannels(b, g), sum_dy_xmu = SumToChannels(b, g * centred);
  DType parameter = weight ? weight->dtype() : sum_dy.dtype();
  Results results(4);
  if (input_g) {
    results[0] = sum_dy;
    results[1] = sum_dy_xmu;
  }
  if (weight_g) results[2] = b.Cast(sum_dy_xmu * Widened(b, invstd), parameter);
  if (bias_g) results[3] = b.Cast(sum_dy, parameter);
  return results;
}
LOWER("batch_norm_backward_reduce", GradReduce, kExact);

// (dy - sum dy / n - (x - mean) invstd^2 sum dy xmu / n) * invstd * weight
Value GradElementwise(Builder& b, Value grad, Value x, Value mean, Value invstd, MaybeValue weight, Value sum_dy,
                      Value sum_dy_xmu, Value count) {
  auto channels = [&](Value v) { return PerChannel(b, Widened(b, v), x); };
  Value total = b.Sum(b.Cast(count, Widened(b, mean).dtype()), Ints{}, false);
  Value scale = channels(invstd), centred = Widened(b, x) - channels(mean);
  Value g = Widened(b, grad) - channels(sum_dy) / total - centred * b.Square(scale) * channels(sum_dy_xmu) / total;
  g = g * scale;
  return b.Cast(weight ? g * channels(*weight) : g, x.dtype());
}
LOWER("batch_norm_backward_elemt", GradElementwise, kExact);

// {mean, biased variance}, and the new running statistics.
Results UpdateStats(Builder& b, Value x, MaybeValue running_mean, MaybeValue running_var, double momentum) {
  auto [mean, variance] = ChannelMoments(b, Widened(b, x));
  double n = CountPerChannel(x);
  Results results{mean, variance};
  if (running_mean) results.push_back(Blend(*running_mean, mean, momentum));
  if (running_var) results.push_back(Blend(*running_var, variance * (n / (n - 1)), momentum));
  return results;
}
LOWER("batch_norm_update_stats", UpdateStats, kExact);

}  // namespace
}  // namespace tpu::lowering
