// Negative log likelihood of class targets; the classes are dimension 1 of x, or 0 of a vector.
#include "lowering/loss.h"

namespace tpu::lowering {
namespace {

// Targets and their weights with the class dimension kept as size 1. Ignored ones weigh 0 and point at class 0.
struct Targets {
  int64_t dim;
  Value index, valid, weight;
};
Targets TargetsOf(Builder& b, Value x, Value target, const std::optional<Value>& weight, int64_t ignore_index) {
  int64_t dim = x.rank() == 1 ? 0 : 1;
  Ints dims = x.dims();
  dims[dim] = 1;
  target = b.Cast(b.Reshape(target, dims), DType::kI64);
  Value valid = b.Ne(target, b.ConstInt(ignore_index));
  Value index = b.Select(valid, target, 0.0);
  b.CheckIndex(index, dim, 0, x.dim(dim));
  Value ones = b.Full(dims, 1.0, x.dtype());
  Value weights = weight ? b.TakeRows(b.Cast(*weight, x.dtype()), index) : ones;
  return {dim, index, valid, b.Select(valid, weights, 0.0)};
}

// {loss, sum of weights}; the sum is 0 where a batch is not reduced, as the kernels have it.
std::pair<Value, Value> NllLoss(Builder& b, Value x, Value target, std::optional<Value> weight, int64_t reduction,
                                int64_t ignore_index) {
  Targets t = TargetsOf(b, x, target, weight, ignore_index);
  Value loss = b.Select(t.valid, -b.TakeAlong(x, t.dim, t.index) * t.weight, 0.0);
  if (reduction == kNone && x.rank() > 1) return {b.Reshape(loss, target.dims()), b.Zeros(b.Expected(1))};
  Value total = b.Sum(t.weight, Ints{}, false), sum = b.Sum(loss, Ints{}, false);
  return {b.Reshape(reduction == kMean ? sum / total : sum, b.Expected(0).dims), b.Reshape(total, b.Expected(1).dims)};
}
LOWER("nll_loss_forward", NllLoss);
LOWER("nll_loss2d_forward", NllLoss);

// -weight at the target's class, 0 elsewhere: a comparison with the class number instead of a scatter.
Value NllLossGrad(Builder& b, Value grad, Value x, Value target, std::optional<Value> weight, int64_t reduction,
                  int64_t ignore_index, Value total_weight) {
  Targets t = TargetsOf(b, x, target, weight, ignore_index);
  Value g = b.Reshape(grad, reduction == kNone ? t.index.dims() : Ints{});
  if (reduction == kMean) g = g / b.Reshape(total_weight, Ints{});
  Value hit = b.And(b.Eq(b.Iota(x.dims(), t.dim), t.index), t.valid);
  return b.Select(hit, -t.weight * g, 0.0);
}
LOWER("nll_loss_backward", NllLossGrad);
LOWER("nll_loss2d_backward", NllLossGrad);

}  // namespace
}  // namespace tpu::lowering
