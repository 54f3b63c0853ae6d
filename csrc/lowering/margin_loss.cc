// Margin losses over classes. x is [batch, classes] or a vector of classes.
#include "lowering/loss.h"

namespace tpu::lowering {
namespace {

Value AsBatch(Builder& b, Value x) { return x.rank() == 2 ? x : b.Reshape(x, Ints{1, x.numel()}); }
Value BatchVector(Builder& b, Value v) { return b.Reshape(v, Ints{v.numel(), 1}); }
// One loss per example, shaped as the target was.
Value ReduceExamples(Builder& b, Value loss, Value x, int64_t reduction) {
  if (reduction == kNone) return b.Reshape(loss, x.rank() == 2 ? Ints{x.dim(0)} : b.Expected(0).dims);
  return ReduceLoss(b, loss, reduction);
}
Value ExampleGrad(Builder& b, Value grad, int64_t count, int64_t reduction) {
  return LossGrad(reduction == kNone ? BatchVector(b, grad) : b.Reshape(grad, Ints{}), count, reduction);
}

// --- sum over classes i other than the target t of max(0, margin - x_t + x_i)^p weight_t / classes
struct Margins {
  Value x, hit, excess, weight;  // excess is 0 at the target and where the margin is kept
};
Margins MarginsOf(Builder& b, Value x, Value target, Value margin, const std::optional<Value>& weight) {
  x = AsBatch(b, x);
  Value index = BatchVector(b, target);
  b.CheckIndex(index, 1, 0, x.dim(1));
  Value hit = b.Eq(b.Iota(x.dims(), 1), index);
  Value z = b.Cast(margin, x.dtype()) - b.TakeAlong(x, 1, index) + x;
  Value excess = b.Select(b.And(b.Gt(z, 0.0), b.Not(hit)), z, 0.0);
  Value weights = weight ? b.TakeRows(*weight, index) : b.Const(1.0, x.dtype());
  return {x, hit, excess, weights / static_cast<double>(x.dim(1))};
}

Value MultiMarginLoss(Builder& b, Value x, Value target, Scalar p, Value margin, std::optional<Value> weight,
                      int64_t reduction) {
  Margins m = MarginsOf(b, x, target, margin, weight);
  Value powered = p.ToInt() == 1 ? m.excess : b.Square(m.excess);
  return ReduceExamples(b, b.Sum(powered * m.weight, Ints{1}, false), x, reduction);
}
LOWER("multi_margin_loss", MultiMarginLoss);

Value MultiMarginLossGrad(Builder& b, Value grad, Value x, Value target, Scalar p, Value margin,
                          std::optional<Value> weight, int64_t reduction) {
  Margins m = MarginsOf(b, x, target, margin, weight);
  Value slope = p.ToInt() == 1 ? b.Cast(b.Gt(m.excess, 0.0), m.x.dtype()) : m.excess * 2.0;
  slope = slope * m.weight;
  slope = b.Select(m.hit, -b.Sum(slope, Ints{1}), slope);
  return b.Reshape(slope * ExampleGrad(b, grad, m.x.dim(0), reduction), x.dims());
}
LOWER("multi_margin_loss_backward", TypedAsFirst<MultiMarginLossGrad>::Apply, kExact);

// --- sum over targets t and classes i that are no target of max(0, 1 - (x_t - x_i)) / classes; a row of targets ends
// at its first negative entry.
struct Labels {
  Value valid, index;  // [batch, classes]
  Value hit;           // [batch, target, class]: the target is valid and this class
};
Labels LabelsOf(Builder& b, Value target) {
  target = AsBatch(b, target);
  Value negative = b.Lt(target, 0.0);
  Value ended = b.AssociativeScan(std::array{negative}, 1, [&](std::span<const Value> s, std::span<const Value> t) {
    return std::vector<Value>{b.Or(s[0], t[0])};
  })[0];
  Value valid = b.Not(ended);
  Value index = b.Select(valid, target, 0.0);
  b.CheckIndex(index, 1, 0, target.dim(1));
  Ints dims{target.dim(0), target.dim(1), target.dim(1)};
  Value hit = b.And(b.Eq(b.Iota(dims, 2), b.Unsqueeze(index, 2)), b.Unsqueeze(valid, 2));
  return {valid, index, hit};
}
// 1 - x_t + x_i as [batch, target, class], 0 where it does not count.
Value LabelExcess(Builder& b, Value x, const Labels& labels, Value is_target) {
  Value z = 1.0 - b.Unsqueeze(b.TakeAlong(x, 1, labels.index), 2) + b.Unsqueeze(x, 1);
  Value counts = b.And(b.Unsqueeze(labels.valid, 2), b.Not(b.Unsqueeze(b.Cast(is_target, DType::kBool), 1)));
  return b.Select(b.And(counts, b.Gt(z, 0.0)), z, 0.0);
}

std::pair<Value, Value> MultilabelMarginLoss(Builder& b, Value x, Value target, int64_t reduction) {
  if (x.numel() == 0) return {b.Zeros(b.Expected(0)), b.Full(target.dims(), 0.0, x.dtype())};
  Labels labels = LabelsOf(b, target);
  Value rows = AsBatch(b, x), is_target = b.Any(labels.hit, Ints{1}, false);
  Value excess = LabelExcess(b, rows, labels, is_target);
  Value loss = b.Sum(excess, Ints{1, 2}, false) / static_cast<double>(rows.dim(1));
  return {ReduceExamples(b, loss, x, reduction), b.Reshape(b.Cast(is_target, x.dtype()), target.dims())};
}
LOWER("multilabel_margin_loss_forward", MultilabelMarginLoss);

Value MultilabelMarginLossGrad(Builder& b, Value grad, Value x, Value target, int64_t reduction, Value is_target) {
  if (x.numel() == 0) return x;
  Labels labels = LabelsOf(b, target);
  Value rows = AsBatch(b, x);
  Value counts = b.Cast(b.Gt(LabelExcess(b, rows, labels, AsBatch(b, is_target)), 0.0), rows.dtype());
  Value raised = b.Sum(counts, Ints{1}, false);
  Value lowered = b.Sum(b.Select(labels.hit, b.Sum(counts, Ints{2}), 0.0), Ints{1}, false);
  Value slope = (raised - lowered) / static_cast<double>(rows.dim(1));
  return b.Reshape(slope * ExampleGrad(b, grad, rows.dim(0), reduction), x.dims());
}
LOWER("multilabel_margin_loss_backward", TypedAsFirst<MultilabelMarginLossGrad>::Apply, kExact);

}  // namespace
}  // namespace tpu::lowering
