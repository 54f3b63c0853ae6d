// Scaled dot-product attention as one operation, and its gradients.
#include <algorithm>
#include <cmath>
#include <limits>

#include "lowering/lowering.h"

namespace tpu::lowering {
namespace {

// Query heads share key heads in groups: everything is [B, key heads, group, length, features].
struct Heads {
  int64_t batch, kv_heads, group, queries, keys;
  Ints Scores() const { return {batch, kv_heads, group, queries, keys}; }
};

Heads HeadsOf(Value query, Value key) {
  bool batched = query.rank() == 4;
  return {batched ? query.dim(0) : 1, key.dim(-3), query.dim(-3) / std::max<int64_t>(1, key.dim(-3)), query.dim(-2),
          key.dim(-2)};
}

// A query-like tensor [(B,) query heads, length, features] to [B, key heads, group, length, features].
Value Grouped(Builder& b, Value x, const Heads& h) {
  return b.Reshape(x, Ints{h.batch, h.kv_heads, h.group, x.dim(-2), x.dim(-1)});
}
// A key-like tensor to [B, key heads, length, features].
Value Batched(Builder& b, Value x, const Heads& h) {
  return b.Reshape(x, Ints{h.batch, h.kv_heads, x.dim(-2), x.dim(-1)});
}

DType Accumulator(DType t) { return t == DType::kF64 ? DType::kF64 : DType::kF32; }

// [B, H, G, L, S] x [B, H, S, E] -> [B, H, G, L, E]; or contracting E when `transpose`: [.., L, E] x [B, H, S, E].
Value Product(Builder& b, Value grouped, Value batched, bool transpose) {
  return b.DotGeneral(grouped, batched, Ints{0, 1}, Ints{0, 1}, Ints{4}, Ints{transpose ? 3 : 2},
                      Accumulator(grouped.dtype()));
}
// [B, H, G, L, S] x [B, H, G, L, E] -> [B, H, S, E]
Value ProductOverQueries(Builder& b, Value scores, Value grouped) {
  return b.DotGeneral(scores, grouped, Ints{0, 1}, Ints{0, 1}, Ints{2, 3}, Ints{2, 3}, Accumulator(grouped.dtype()));
}

// A bias that broadcasts to [B, query heads, L, S], as [B or 1, key heads or 1, group or 1, L or 1, S or 1].
Value GroupedBias(Builder& b, Value bias, const Heads& h) {
  Ints dims = bias.dims();
  dims.insert(dims.begin(), 4 - dims.size(), 1);
  bool shared = dims[1] == 1;
  return b.Reshape(bias, Ints{dims[0], shared ? 1 : h.kv_heads, shared ? 1 : h.group, dims[2], dims[3]});
}

Value Scores(Builder& b, Value query, Value key, std::optional<Value> bias, bool is_causal, double scale,
             const Heads& h) {
  Value s = Product(b, query, key, true) * scale;
  if (bias) {
    Value grouped = GroupedBias(b, *bias, h);
    constexpr double kMasked = -std::numeric_limits<double>::infinity();
    s = IsBool(grouped.dtype()) ? b.Select(grouped, s, kMasked) : s + b.Cast(grouped, s.dtype());
  }
  if (is_causal) {
    Ints square = {h.queries, h.keys};
    Value visible = b.Ge(b.Iota(square, 0, DType::kI32), b.Iota(square, 1, DType::kI32));
    s = b.Select(visible, s, -std::numeric_limits<double>::infinity());
  }
  return s;
}

// exp(s - lse), and log(sum(exp(s))). A row with no visible key has probabilities 0 and lse = +inf, as on CUDA.
struct Softmax {
  Value probabilities, logsumexp;
};
Softmax SoftmaxOf(Builder& b, Value s) {
  Value top = b.Max(s, Ints{4});
  top = b.Select(b.Eq(top, -std::numeric_limits<double>::infinity()), 0.0, top);
  Value e = b.Exp(s - top);
  Value sum = b.Sum(e, 4);
  Value empty = b.Eq(sum, 0.0);
  return {e / b.Select(empty, 1.0, sum),
          b.Select(empty, std::numeric_limits<double>::infinity(), top + b.Log(b.Select(empty, 1.0, sum)))};
}

double ScaleOf(std::optional<double> scale, Value query) {
  return scale ? *scale : 1.0 / std::sqrt(static_cast<double>(query.dim(-1)));
}

// 1 / (1 - p) where a probability is kept, 0 where it is dropped; a function of the seed and offset.
Value DropoutFactor(Builder& b, Value seed, Value offset, double p, const Heads& h, DType dtype) {
  Value state = b.Concat(std::vector<Value>{b.Reshape(b.Cast(seed, DType::kU64), Ints{1}),
                                            b.Reshape(b.Cast(offset, DType::kU64), Ints{1})},
                         0);
  Rng rng(b, state);
  Value kept = b.Ge(rng.Uniform(h.Scores(), DType::kF32), p);
  return b.Cast(kept, dtype) * (p < 1 ? 1 / (1 - p) : 0.0);
}

// Result i is the schema's result i; max_q and max_k are numbers, not tensors, and stay empty here.
Results Attention(Builder& b, Value query, Value key, Value value, std::optional<Value> bias, double dropout_p,
                  bool is_causal, bool /*return_debug_mask*/, std::optional<double> scale, Rng* rng) {
  Heads h = HeadsOf(query, key);
  Ints out_dims = query.dims();
  out_dims.back() = value.dim(-1);
  Value s = Scores(b, Grouped(b, query, h), Batched(b, key, h), bias, is_causal, ScaleOf(scale, query), h);
  Softmax softmax = SoftmaxOf(b, s);
  Value p = softmax.probabilities;
  Value seed = b.ConstInt(0), offset = b.ConstInt(0);
  if (dropout_p > 0) {
    // The backward draws the same numbers again, keyed by words of this op's own stream.
    seed = b.Cast(b.Reshape(b.Bitcast(rng->Bits(Ints{2}), DType::kU64), Ints{}), DType::kI64);
    p = p * DropoutFactor(b, seed, offset, dropout_p, h, p.dtype());
  }
  Value out = b.Reshape(Product(b, b.Cast(p, value.dtype()), Batched(b, value, h), false), out_dims);
  Value logsumexp = b.Reshape(softmax.logsumexp, Ints{h.batch, h.kv_heads * h.group, h.queries});
  Results results(9);
  results[0] = out;
  results[1] = b.Cast(logsumexp, DType::kF32);
  results[6] = seed;
  results[7] = offset;
  return results;
}

// With p the probabilities, d the dropout factor and D = rowsum(grad * out):
// dV = (p d)^T grad;  dS = p (d (grad V^T) - D);  dQ = scale dS K;  dK = scale dS^T Q;  dbias = dS.
Results Gradients(Builder& b, Value grad, Value query, Value key, Value value, std::optional<Value> bias, Ints mask,
                  Value out, Value logsumexp, double dropout_p, bool is_causal, std::optional<Value> seed,
                  std::optional<Value> offset, std::optional<double> scale_argument, bool use_logsumexp) {
  Heads h = HeadsOf(query, key);
  double scale = ScaleOf(scale_argument, query);
  Value q = Grouped(b, query, h), k = Batched(b, key, h), v = Batched(b, value, h), g = Grouped(b, grad, h);
  DType dtype = Accumulator(query.dtype()), narrow = query.dtype();
  Value s = Scores(b, q, k, bias, is_causal, scale, h);
  Value p = !use_logsumexp ? SoftmaxOf(b, s).probabilities
                           : b.Exp(s - b.Reshape(logsumexp, Ints{h.batch, h.kv_heads, h.group, h.queries, 1}));
  Value dp = Product(b, g, v, true);
  Value kept = p;
  if (dropout_p > 0) {
    Value factor = DropoutFactor(b, *seed, *offset, dropout_p, h, dtype);
    kept = p * factor;
    dp = dp * factor;
  }
  Value delta = b.Sum(b.Cast(g, dtype) * b.Cast(Grouped(b, out, h), dtype), 4);
  Value ds = p * (dp - delta);
  Value narrow_ds = b.Cast(ds, narrow);
  Results results(4);
  if (mask[0]) results[0] = b.Reshape(Product(b, narrow_ds, k, false) * scale, query.dims());
  if (mask[1]) results[1] = b.Reshape(ProductOverQueries(b, narrow_ds, q) * scale, key.dims());
  if (mask[2]) results[2] = b.Reshape(ProductOverQueries(b, b.Cast(kept, narrow), g), value.dims());
  if (mask[3] && bias) {
    Value grouped = GroupedBias(b, *bias, h);
    Ints summed;
    for (int64_t d = 0; d < 5; ++d) {
      if (grouped.dim(d) == 1 && ds.dim(d) != 1) summed.push_back(d);
    }
    results[3] = b.Reshape(summed.empty() ? ds : b.Sum(ds, summed), bias->dims());
  }
  return results;
}

Results AttentionBackward(Builder& b, Value grad, Value query, Value key, Value value, std::optional<Value> bias,
                          Ints mask, Value out, Value logsumexp, std::optional<Value> /*cum_seq_q*/,
                          std::optional<Value> /*cum_seq_k*/, int64_t /*max_q*/, int64_t /*max_k*/, double dropout_p,
                          bool is_causal, std::optional<Value> seed, std::optional<Value> offset,
                          std::optional<double> scale) {
  // logsumexp is float32, too coarse for float64.
  const bool use_logsumexp = query.dtype() != DType::kF64;
  return Gradients(b, grad, query, key, value, bias, mask, out, logsumexp, dropout_p, is_causal, seed, offset, scale,
                   use_logsumexp);
}

LOWER("_scaled_dot_product_fused_attention_overrideable", Attention, kExact);
LOWER("_scaled_dot_product_fused_attention_overrideable_backward", AttentionBackward, kExact);

// The same under CUDA's names, for programs that call it so. Keys may be a part of all keys, with the logsumexp of all:
// context parallelism.

Value One(Builder& b, Value x) { return b.Reshape(b.Cast(x, DType::kU64), Ints{1}); }

Results FlashAttention(Builder& b, Value query, Value key, Value value, double dropout_p, bool is_causal,
                       bool return_debug_mask, std::optional<double> scale, Rng* rng) {
  Results results = Attention(b, query, key, value, std::nullopt, dropout_p, is_causal, return_debug_mask, scale, rng);
  results[6] = b.Concat(std::vector<Value>{One(b, *results[6]), One(b, *results[7])}, 0);
  results[8] = b.BroadcastTo(b.ConstLike(0, query), Ints{0});
  return results;
}
Results FlashAttentionBackward(Builder& b, Value grad, Value query, Value key, Value value, Value out, Value logsumexp,
                               std::optional<Value> /*cum_seq_q*/, std::optional<Value> /*cum_seq_k*/,
                               int64_t /*max_q*/, int64_t /*max_k*/, double dropout_p, bool is_causal, Value state,
                               Value /*unused*/, std::optional<double> scale) {
  Results results = Gradients(b, grad, query, key, value, std::nullopt, Ints{1, 1, 1, 0}, out, logsumexp, dropout_p,
                              is_causal, b.SliceDim(state, 0, 0, 1), b.SliceDim(state, 0, 1, 2), scale, true);
  results.resize(3);
  return results;
}
LOWER("_scaled_dot_product_flash_attention", FlashAttention, kExact);
LOWER("_scaled_dot_product_flash_attention_backward", FlashAttentionBackward, kExact);

// Its logsumexp is padded.
Results EfficientAttention(Builder& b, Value query, Value key, Value value, std::optional<Value> bias,
                           bool compute_log_sumexp, double dropout_p, bool is_causal, std::optional<double> scale,
                           Rng* rng) {
  Results results = Attention(b, query, key, value, bias, dropout_p, is_causal, false, scale, rng);
  constexpr int64_t kAlignment = 32;
  const int64_t length = query.dim(-2), padded = (length + kAlignment - 1) / kAlignment * kAlignment;
  const int64_t high = compute_log_sumexp ? padded - length : -length;
  Value infinity = b.ConstLike(std::numeric_limits<double>::infinity(), *results[1]);
  results[1] = b.Pad(*results[1], infinity, Ints{0, 0, 0}, Ints{0, 0, high});
  results[2] = results[6];
  results[3] = results[7];
  results.resize(4);
  return results;
}
Results EfficientAttentionBackward(Builder& b, Value grad, Value query, Value key, Value value,
                                   std::optional<Value> bias, Value out, Value logsumexp, Value seed, Value offset,
                                   double dropout_p, Ints mask, bool is_causal, std::optional<double> scale) {
  return Gradients(b, grad, query, key, value, bias, mask, out, b.SliceDim(logsumexp, 2, 0, query.dim(-2)), dropout_p,
                   is_causal, seed, offset, scale, true);
}
LOWER("_scaled_dot_product_efficient_attention", EfficientAttention, kExact);
LOWER("_scaled_dot_product_efficient_attention_backward", EfficientAttentionBackward, kExact);

// The same under the CPU's name, for programs that call it so. It drops nothing.
Results CpuAttention(Builder& b, Value query, Value key, Value value, double /*dropout_p*/, bool is_causal,
                     std::optional<Value> mask, std::optional<double> scale) {
  Results results = Attention(b, query, key, value, mask, 0, is_causal, false, scale, nullptr);
  results.resize(2);
  return results;
}
Results CpuAttentionBackward(Builder& b, Value grad, Value query, Value key, Value value, Value out, Value logsumexp,
                             double /*dropout_p*/, bool is_causal, std::optional<Value> mask,
                             std::optional<double> scale) {
  Results results = AttentionBackward(b, grad, query, key, value, mask, Ints{1, 1, 1, 0}, out, logsumexp, std::nullopt,
                                      std::nullopt, 0, 0, 0, is_causal, std::nullopt, std::nullopt, scale);
  results.resize(3);
  return results;
}
LOWER("_scaled_dot_product_flash_attention_for_cpu", CpuAttention, kExact);
LOWER("_scaled_dot_product_flash_attention_for_cpu_backward", CpuAttentionBackward, kExact);

}  // namespace
}  // namespace tpu::lowering
