// Connectionist temporal classification (Graves et al., ICML 2006), in log space.
//
// A target l_1..l_L is read as the states blank l_1 blank ... l_L blank, S = 2 L + 1 of them. alpha[t, s] is the log
// probability of all alignments of the first t + 1 inputs that end in state s, beta[t, s] of the rest that starts
// there, both including input t. Arrays: [batch, S] per time, [time, batch, S] stacked.
#include <limits>

#include "lowering/reduction.h"

namespace tpu::lowering {
namespace {

constexpr double kNegInf = -std::numeric_limits<double>::infinity();

struct Lattice {
  int64_t times, batch, states;
  Value state;                          // i64 [batch, S]: the class of each state
  Value skips;                          // bool [batch, S]: reachable from two states before
  Value log_probs;                      // [time, batch, S], of the states' classes
  Value input_lengths, target_lengths;  // i64 [batch, 1]
};

// The targets as [batch, length]: rows, or all of them end to end.
Value TargetRows(Builder& b, Value targets, Value lengths, int64_t length) {
  targets = b.Cast(targets, DType::kI64);
  int64_t batch = lengths.dim(0);
  if (targets.rank() == 2) return b.SliceDim(targets, 1, 0, length);
  Value upto = b.AssociativeScan(std::array{lengths}, 0, [](std::span<const Value> s, std::span<const Value> t) {
    return std::vector<Value>{s[0] + t[0]};
  })[0];
  Value index = b.Reshape(upto - lengths, Ints{batch, 1}) + b.Iota(Ints{batch, length}, 1);
  return b.TakeRows(targets, b.Min(index, static_cast<double>(targets.dim(0) - 1)));
}

Lattice LatticeOf(Builder& b, Value log_probs, Value targets, Value input_lengths, Value target_lengths, int64_t blank,
                  int64_t states) {
  Lattice m{.times = log_probs.dim(0),
            .batch = log_probs.dim(1),
            .states = states,
            .state = {},
            .skips = {},
            .log_probs = {},
            .input_lengths = {},
            .target_lengths = {}};
  target_lengths = b.Cast(target_lengths, DType::kI64);
  m.input_lengths = b.Reshape(b.Cast(input_lengths, DType::kI64), Ints{m.batch, 1});
  m.target_lengths = b.Reshape(target_lengths, Ints{m.batch, 1});
  Ints row{m.batch, states};
  Value position = b.Iota(row, 1);
  if (states == 1) {
    m.state = b.Full(row, static_cast<double>(blank), DType::kI64);
  } else {
    Value labels = TargetRows(b, targets, target_lengths, states / 2);
    // Entries beyond a target's length may hold anything.
    Value inside = b.Lt(b.Iota(labels.dims(), 1), m.target_lengths);
    labels = b.Select(inside, labels, static_cast<double>(blank));
    b.CheckIndex(labels, 2, 0, log_probs.dim(2));
    m.state = b.Pad(labels, b.ConstInt(blank), Ints{0, 1}, Ints{0, 1}, Ints{0, 1});
  }
  Value two_before = b.Pad(m.state, b.ConstInt(blank), Ints{0, 2}, Ints{0, -2});
  m.skips = b.And(b.Ge(position, 2.0), b.Ne(m.state, two_before));
  Ints stacked{m.times, m.batch, states};
  m.log_probs = b.TakeAlong(log_probs, 2, b.BroadcastTo(m.state, stacked));
  return m;
}

// log sum exp of three, none of them NaN; -inf if all are.
Value LogSum(Builder& b, Value x, Value y, Value z) {
  Value top = b.Max(b.Max(x, y), z);
  top = b.Select(b.Eq(top, kNegInf), 0.0, top);
  return b.Log(b.Exp(x - top) + b.Exp(y - top) + b.Exp(z - top)) + top;
}

// Runs row = step(t, the row before, log_probs[t]) over the times, in order or from the last, and stacks the rows.
Value Stack(Builder& b, const Lattice& m, bool backwards, const std::function<Value(Value, Value, Value)>& step) {
  Ints sizes{1, m.batch, m.states}, row{m.batch, m.states};
  auto body = [&](Builder&, std::span<const Value> s) {
    Value t = backwards ? static_cast<double>(m.times - 1) - s[0] : s[0];
    std::array at{t, b.ConstInt(0), b.ConstInt(0)};
    Value next = step(t, s[1], b.Reshape(b.DynamicSlice(m.log_probs, at, sizes), row));
    return std::vector<Value>{s[0] + 1.0, next, b.DynamicUpdateSlice(s[2], b.Reshape(next, sizes), at)};
  };
  auto more = [&](Builder&, std::span<const Value> s) { return b.Lt(s[0], static_cast<double>(m.times)); };
  std::array init{b.ConstInt(0), b.Full(row, kNegInf, m.log_probs.dtype()), b.ZerosLike(m.log_probs)};
  return b.While(init, more, body)[2];
}

// alpha[t, s] = p[t, s] (alpha[t - 1, s] + alpha[t - 1, s - 1] + alpha[t - 1, s - 2] if it may skip), here logarithms.
Value Alphas(Builder& b, const Lattice& m) {
  Value position = b.Iota(Ints{m.batch, m.states}, 1);
  Value minus_inf = b.Const(kNegInf, m.log_probs.dtype());
  Value may_start = b.Lt(position, b.Select(b.Gt(m.target_lengths, 0.0), 2.0, b.ConstInt(1)));
  return Stack(b, m, false, [&](Value t, Value before, Value log_prob) {
    Value one = b.Pad(before, minus_inf, Ints{0, 1}, Ints{0, -1});
    Value two = b.Select(m.skips, b.Pad(before, minus_inf, Ints{0, 2}, Ints{0, -2}), kNegInf);
    Value start = b.Select(may_start, 0.0, minus_inf);
    return b.Select(b.Eq(t, 0.0), start, LogSum(b, before, one, two)) + log_prob;
  });
}

// The same from the end: beta starts in the last two states at the last input; states beyond them have none.
Value Betas(Builder& b, const Lattice& m) {
  Value position = b.Iota(Ints{m.batch, m.states}, 1);
  Value minus_inf = b.Const(kNegInf, m.log_probs.dtype());
  Value last = m.target_lengths * 2.0;
  Value ends = b.And(b.Le(position, last), b.Ge(position, last - 1.0));
  Value skips_on = b.Pad(m.skips, b.Const(0.0, DType::kBool), Ints{0, -2}, Ints{0, 2});
  return Stack(b, m, true, [&](Value t, Value after, Value log_prob) {
    Value one = b.Pad(after, minus_inf, Ints{0, -1}, Ints{0, 1});
    Value two = b.Select(skips_on, b.Pad(after, minus_inf, Ints{0, -2}, Ints{0, 2}), kNegInf);
    Value start = b.Select(ends, 0.0, minus_inf);
    Value row = b.Select(b.Eq(t, m.input_lengths - 1.0), start, LogSum(b, after, one, two)) + log_prob;
    return b.Select(b.And(b.Le(position, last), b.Lt(t, m.input_lengths)), row, kNegInf);
  });
}

// {-log likelihood [batch], log alpha [batch, time, S]}
std::pair<Value, Value> Forward(Builder& b, Value log_probs, Value targets, Value input_lengths, Value target_lengths,
                                int64_t blank, int64_t states) {
  Lattice m = LatticeOf(b, log_probs, targets, input_lengths, target_lengths, blank, states);
  Value alpha = b.Transpose(Alphas(b, m), Ints{1, 0, 2});
  Value time = b.Max(m.input_lengths - 1.0, 0.0);
  time = b.BroadcastTo(b.Unsqueeze(time, 2), Ints{m.batch, 1, states});
  Value final_row = b.Reshape(b.TakeAlong(alpha, 1, time), Ints{m.batch, states});
  Value last = m.target_lengths * 2.0;
  Value end = b.TakeAlong(final_row, 1, last);
  Value label_end = b.TakeAlong(final_row, 1, b.Max(last - 1.0, 0.0));
  Value empty_target = b.Eq(m.target_lengths, 0.0);
  label_end = b.Select(empty_target, kNegInf, label_end);
  Value log_likelihood = LogSum(b, end, label_end, b.Const(kNegInf, end.dtype()));
  // Without input only the empty target is certab.
  Value certain = b.Select(empty_target, b.ConstLike(0, end), kNegInf);
  log_likelihood = b.Select(b.Eq(m.input_lengths, 0.0), certain, log_likelihood);
  return {b.Reshape(-log_likelihood, Ints{m.batch}), alpha};
}

// With Z the likelihood, the posterior of state s at time t is alpha beta / (p Z), and
// d loss / d log p[t, c] = p[t, c] - sum of the posteriors of the states of class c.
Value Backward(Builder& b, Value grad, Value log_probs, Value targets, Value input_lengths, Value target_lengths,
               Value loss, Value log_alpha, int64_t blank, bool zero_infinity) {
  Lattice m = LatticeOf(b, log_probs, targets, input_lengths, target_lengths, blank, log_alpha.dim(2));
  Value beta = Betas(b, m);
  Ints per_batch{1, m.batch, 1};
  loss = b.Reshape(loss, per_batch);
  grad = b.Reshape(grad, per_batch);
  Value alpha = b.Transpose(log_alpha, Ints{1, 0, 2});
  Value posterior = b.Select(b.Eq(beta, kNegInf), 0.0, b.Exp(alpha + beta + loss - m.log_probs));
  Value is_class = b.Eq(b.Unsqueeze(m.state, 2), b.Iota(Ints{m.batch, m.states, log_probs.dim(2)}, 2));
  Value by_class = b.Sum(b.Select(b.Unsqueeze(is_class, 0), b.Unsqueeze(posterior, 3), 0.0), Ints{2}, false);
  Value impossible = b.Eq(loss, -kNegInf);
  Value slope = (b.Exp(log_probs) - by_class) * grad;
  slope = b.Select(impossible, zero_infinity ? 0.0 : std::numeric_limits<double>::quiet_NaN(), slope);
  Value within = b.Lt(b.Iota(log_probs.dims(), 0), b.Reshape(m.input_lengths, per_batch));
  return b.Select(within, slope, 0.0);
}

int64_t States(const Ints& target_lengths) {
  int64_t longest = 0;
  for (int64_t length : target_lengths) longest = std::max(longest, length);
  return 2 * longest + 1;
}

std::pair<Value, Value> CtcLoss(Builder& b, Value log_probs, Value targets, Ints input_lengths, Ints target_lengths,
                                int64_t blank, bool /*zero_infinity*/) {
  return Forward(b, log_probs, targets, b.ConstInts(input_lengths), b.ConstInts(target_lengths), blank,
                 States(target_lengths));
}
LOWER("_ctc_loss", CtcLoss);

// Lengths known at run time only: as many states as the longest possible target has.
std::pair<Value, Value> CtcLossTensor(Builder& b, Value log_probs, Value targets, Value input_lengths,
                                      Value target_lengths, int64_t blank, bool /*zero_infinity*/) {
  return Forward(b, log_probs, targets, input_lengths, target_lengths, blank, 2 * targets.dim(-1) + 1);
}
LOWER("_ctc_loss.Tensor", CtcLossTensor);

Value CtcLossGrad(Builder& b, Value grad, Value log_probs, Value targets, Ints input_lengths, Ints target_lengths,
                  Value loss, Value log_alpha, int64_t blank, bool zero_infinity) {
  return Backward(b, grad, log_probs, targets, b.ConstInts(input_lengths), b.ConstInts(target_lengths), loss, log_alpha,
                  blank, zero_infinity);
}
LOWER("_ctc_loss_backward", CtcLossGrad);
LOWER("_ctc_loss_backward.Tensor", Backward);

}  // namespace
}  // namespace tpu::lowering
