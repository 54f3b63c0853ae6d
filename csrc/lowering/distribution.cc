// Draws by inversion or rejection: Poisson, binomial, gamma, Dirichlet.
#include <cmath>
#include <limits>
#include <numbers>

#include "lowering/distribution.h"
#include "lowering/indexing.h"

namespace tpu::lowering {
namespace {

struct Proposal {
  Value accepted, value;
};
using Propose = std::function<Proposal(Rng& rng, std::span<const Value> parameters)>;

// Proposes again, with fresh numbers, where a proposal was not accepted. Element types and shapes of the parameters are
// the result's. Each round draws from a counter range of its own under a key drawn from `rng`.
Value Reject(Builder& b, Rng& rng, std::vector<Value> parameters, const Propose& propose) {
  constexpr double kMaxRounds = 1000;  // acceptance is above 0.7 a round; NaN parameters never are accepted
  const Type type = parameters.at(0).type();
  Value nan = b.Full(type.dims, std::numeric_limits<double>::quiet_NaN(), type.dtype);
  std::vector<Value> state{b.ConstInt(0), Bits64(b, rng, Ints{1}), b.Full(type.dims, 0.0, DType::kBool), nan};
  state.insert(state.end(), parameters.begin(), parameters.end());
  auto unfinished = [](Builder& b, std::span<const Value> state) {
    Value some = b.Any(b.Not(state[2]), Ints{}, false);
    return b.And(b.Reshape(some, Ints{}), b.Lt(state[0], kMaxRounds));
  };
  auto round = [&propose](Builder& b, std::span<const Value> state) {
    constexpr int64_t kWordsPerRound = int64_t{1} << 40;
    Value offset = b.Cast(b.Mul(state[0], b.ConstInt(kWordsPerRound)), DType::kU64);
    Rng fresh(b, b.Concat(std::vector<Value>{state[1], b.Reshape(offset, Ints{1})}, 0));
    Proposal proposal = propose(fresh, state.subspan(4));
    std::vector<Value> next(state.begin(), state.end());
    next[0] = state[0] + 1.0;
    next[3] = b.Select(b.And(b.Not(state[2]), proposal.accepted), proposal.value, state[3]);
    next[2] = b.Or(state[2], proposal.accepted);
    return next;
  };
  return b.While(state, unfinished, round).at(3);
}

// The number of terms that a uniform number has passed of cumulative probabilities, given the first one and the ratio
// of the one after term k to it. Means below 10 only: float32's uniforms then end before term 40.
Value Invert(Builder& b, Value uniform, Value first, const std::function<Value(double)>& ratio) {
  constexpr int kTerms = 40;
  Value probability = first, cumulative = first, count = b.ZerosLike(uniform);
  for (int k = 0; k < kTerms; ++k) {
    count = b.Add(count, b.Cast(b.Ge(uniform, cumulative), uniform.dtype()));
    probability = b.Mul(probability, ratio(k));
    cumulative = b.Add(cumulative, probability);
  }
  return count;
}

// log k! - [(k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2], the tail of Stirling's series.
Value StirlingTail(Builder& b, Value k) {
  Value n = k + 1.0, square = b.Mul(n, n);
  Value large = b.Div(1.0 / 12 - b.Div(1.0 / 360 - 1.0 / 1260 / square, square), n);
  Value bounded = b.Min(n, 10.0);
  double half_log_two_pi = 0.5 * std::log(2 * std::numbers::pi);
  Value small = b.Chlo("lgamma", {bounded}) - b.Mul(bounded - 0.5, b.Log(bounded)) + bounded - half_log_two_pi;
  return b.Select(b.Lt(n, 10.0), small, large);
}

// Both of Hörmann's transformed rejections propose k = floor((2 a / s + b) u + c) for u in (-1/2, 1/2), s = 1/2 - |u|,
// accept at once where s >= 0.07 and v <= v_r, and compare log(v alpha / (a / s^2 + b)) with the log of the density.
struct Transformed {
  Value k, at_once, possible, log_height;
};
Transformed Transform(Builder& b, Rng& rng, Value a, Value scale, Value c, Value v_r, Value alpha) {
  Value u = OpenUniform(b, rng, a.dims(), a.dtype()) - 0.5, v = OpenUniform(b, rng, a.dims(), a.dtype());
  Value s = b.Max(0.5 - b.Abs(u), 1e-7);
  Transformed t;
  t.k = b.Floor(b.Add(b.Mul(b.Add(b.Div(2.0 * a, s), scale), u), c));
  t.at_once = b.And(b.Ge(s, 0.07), b.Le(v, v_r));
  t.possible = b.And(b.Ge(t.k, 0.0), b.Not(b.And(b.Lt(s, 0.013), b.Gt(v, s))));
  t.log_height = b.Log(b.Div(b.Mul(v, alpha), b.Add(b.Div(a, b.Mul(s, s)), scale)));
  return t;
}

// PTRS: W. Hörmann, "The transformed rejection method for generating Poisson random variables", 1993. For means >= 10.
Value PoissonByRejection(Builder& b, Rng& rng, Value mean) {
  return Reject(b, rng, {mean}, [&b](Rng& fresh, std::span<const Value> parameters) {
    Value mean = parameters[0];
    Value scale = 0.931 + 2.53 * b.Sqrt(mean);
    Value a = 0.02483 * scale - 0.059, alpha = 1.1239 + 1.1328 / (scale - 3.4), v_r = 0.9277 - 3.6224 / (scale - 2.0);
    Transformed t = Transform(b, fresh, a, scale, mean + 0.43, v_r, alpha);
    // k log(mean) - mean - log k!, without the cancellation of its large terms.
    Value k = b.Max(t.k, 0.0), n = k + 1.0, excess = b.Sub(mean, n);
    Value log_density = b.Mul(k, b.Log1p(b.Div(excess, n))) - 0.5 * b.Log(n) - excess - StirlingTail(b, k) -
                        0.5 * std::log(2 * std::numbers::pi);
    Value accepted = b.Or(t.at_once, b.And(t.possible, b.Le(t.log_height, log_density)));
    return Proposal{accepted, t.k};
  });
}

Value Poisson(Builder& b, Value mean, Rng* rng) {
  if (mean.numel() == 0) return mean;
  Value small = b.Min(mean, 10.0);
  Value inverted =
      Invert(b, rng->Uniform(mean.dims(), mean.dtype()), b.Exp(-small), [&](double k) { return small / (k + 1); });
  Value rejected = PoissonByRejection(b, *rng, b.Max(mean, 10.0));
  return b.Select(b.Lt(mean, 10.0), inverted, rejected);
}
LOWER("poisson", Poisson);

// BTRS: W. Hörmann, "The generation of binomial random variates", 1993. For p <= 1/2 and n p >= 10.
Value BinomialByRejection(Builder& b, Rng& rng, Value n, Value p) {
  return Reject(b, rng, {n, p}, [&b](Rng& fresh, std::span<const Value> parameters) {
    Value n = parameters[0], p = parameters[1], q = 1.0 - p, odds = b.Div(p, q);
    Value deviation = b.Sqrt(b.Mul(b.Mul(n, p), q)), scale = 1.15 + 2.53 * deviation;
    Value a = b.Add(0.0248 * scale - 0.0873, 0.01 * p), alpha = b.Mul(2.83 + 5.1 / scale, deviation);
    Transformed t = Transform(b, fresh, a, scale, b.Add(b.Mul(n, p), b.ConstLike(0.5, n)), 0.92 - 4.2 / scale, alpha);
    Value mode = b.Floor(b.Mul(n + 1.0, p)), k = b.Min(b.Max(t.k, 0.0), n);
    Value above_mode = b.Sub(n, mode) + 1.0, above_k = b.Sub(n, k) + 1.0;
    // The log of the ratio of the probabilities of k and the mode, factorials by Stirling.
    Value log_ratio = b.Mul(mode + 0.5, b.Log(b.Div(mode + 1.0, b.Mul(odds, above_mode)))) +
                      b.Mul(n + 1.0, b.Log(b.Div(above_mode, above_k))) +
                      b.Mul(k + 0.5, b.Log(b.Div(b.Mul(odds, above_k), k + 1.0))) + StirlingTail(b, mode) +
                      StirlingTail(b, b.Sub(n, mode)) - StirlingTail(b, k) - StirlingTail(b, b.Sub(n, k));
    Value possible = b.And(b.And(b.Ge(t.k, 0.0), b.Le(t.k, n)), b.Le(t.log_height, log_ratio));
    return Proposal{b.Or(t.at_once, possible), t.k};
  });
}

Value Binomial(Builder& b, Value count, Value probability, Rng* rng) {
  Ints dims = hlo::BroadcastDims(count.dims(), probability.dims());
  DType dtype = hlo::Promote(count.dtype(), probability.dtype());
  if (hlo::NumElements(dims) == 0) return b.Zeros({dtype, dims});
  Value n = b.BroadcastTo(b.Cast(count, dtype), dims), p = b.BroadcastTo(b.Cast(probability, dtype), dims);
  Value flipped = b.Gt(p, 0.5), rare = b.Select(flipped, 1.0 - p, p), mean = b.Mul(n, rare);
  Value few = b.Lt(mean, 10.0);
  // Parameters are harmless where the other method is chosen.
  Value small_n = b.Select(few, n, 0.0), odds = b.Div(rare, 1.0 - rare);
  Value none = b.Exp(b.Mul(small_n, b.Log1p(-rare)));
  Value inverted = Invert(b, rng->Uniform(dims, dtype), none,
                          [&](double k) { return b.Mul(b.Max(small_n - k, 0.0) / (k + 1), odds); });
  Value rejected = BinomialByRejection(b, *rng, b.Select(few, 40.0, n), b.Select(few, 0.5, rare));
  Value drawn = b.Select(few, b.Min(inverted, n), rejected);
  Value valid = b.And(b.And(b.Ge(n, 0.0), b.Ge(p, 0.0)), b.Le(p, 1.0));
  return b.Select(valid, b.Select(flipped, b.Sub(n, drawn), drawn), std::numeric_limits<double>::quiet_NaN());
}
LOWER("binomial", Binomial);

// G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables", 2000: d v, v = (1 + c x)^3, x normal.
// A shape a below 1 is drawn as a + 1 and scaled by u^(1 / a).
Value GammaDraw(Builder& b, Rng& rng, Value shape) {
  Value small = b.Lt(shape, 1.0);
  Value lifted = b.Select(small, shape + 1.0, shape);
  Value drawn = Reject(b, rng, {lifted}, [&b](Rng& fresh, std::span<const Value> parameters) {
    Value shape = parameters[0], d = shape - 1.0 / 3, c = b.Rsqrt(9.0 * d);
    Value x = fresh.Normal(shape.dims(), shape.dtype()), u = OpenUniform(b, fresh, shape.dims(), shape.dtype());
    Value root = b.Add(b.Mul(c, x), b.ConstLike(1.0, x)), v = b.Mul(b.Mul(root, root), root), square = b.Mul(x, x);
    Value bound = b.Add(0.5 * square, b.Mul(d, 1.0 - v + b.Log(v)));
    return Proposal{b.And(b.Gt(root, 0.0), b.Lt(b.Log(u), bound)), b.Mul(d, v)};
  });
  Value boost = b.Pow(OpenUniform(b, rng, shape.dims(), shape.dtype()), 1.0 / shape);
  return b.Select(small, b.Mul(drawn, boost), drawn);
}

Value SmallestNormal(Builder& b, DType dtype) {
  return b.Const(dtype == DType::kF64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min(), dtype);
}

Value StandardGamma(Builder& b, Value shape, Rng* rng) {
  if (shape.numel() == 0) return shape;
  return b.Max(GammaDraw(b, *rng, shape), SmallestNormal(b, shape.dtype()));
}
LOWER("_standard_gamma", StandardGamma);

Value SampleDirichlet(Builder& b, Value concentration, Rng* rng) {
  if (concentration.numel() == 0) return concentration;
  Value gamma = StandardGamma(b, concentration, rng);
  return b.Div(gamma, b.Sum(gamma, concentration.rank() - 1));
}
LOWER("_sample_dirichlet", SampleDirichlet);

}  // namespace
}  // namespace tpu::lowering
