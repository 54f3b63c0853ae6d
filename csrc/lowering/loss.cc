// Losses that compare an input with a target element by element. z is the difference x - t.
#include "lowering/loss.h"

namespace tpu::lowering {
namespace {

int64_t BroadcastCount(Value x, Value t) { return hlo::NumElements(hlo::BroadcastDims(x.dims(), t.dims())); }

Value MseLoss(Builder& b, Value x, Value t, int64_t reduction) { return ReduceLoss(b, b.Square(x - t), reduction); }
LOWER("mse_loss", MseLoss);

Value MseLossGrad(Builder&, Value grad, Value x, Value t, int64_t reduction) {
  return (x - t) * 2.0 * LossGrad(grad, BroadcastCount(x, t), reduction);
}
LOWER("mse_loss_backward", MseLossGrad);

// z^2 / (2 beta) where |z| < beta, |z| - beta / 2 beyond.
Value SmoothL1Loss(Builder& b, Value x, Value t, int64_t reduction, double beta) {
  Value z = b.Abs(x - t);
  if (beta == 0) return ReduceLoss(b, z, reduction);
  return ReduceLoss(b, b.Select(b.Lt(z, beta), z * z * 0.5 / beta, z - 0.5 * beta), reduction);
}
LOWER("smooth_l1_loss", SmoothL1Loss);

Value SmoothL1LossGrad(Builder& b, Value grad, Value x, Value t, int64_t reduction, double beta) {
  Value z = x - t;
  Value slope = beta == 0 ? b.Sign(z) : b.Select(b.Lt(b.Abs(z), beta), z / beta, b.Sign(z));
  return slope * LossGrad(grad, BroadcastCount(x, t), reduction);
}
LOWER("smooth_l1_loss_backward", SmoothL1LossGrad);

// z^2 / 2 where |z| <= delta, delta (|z| - delta / 2) beyond.
Value HuberLoss(Builder& b, Value x, Value t, int64_t reduction, double delta) {
  Value z = b.Abs(x - t);
  return ReduceLoss(b, b.Select(b.Le(z, delta), z * z * 0.5, (z - 0.5 * delta) * delta), reduction);
}
LOWER("huber_loss", HuberLoss);

Value HuberLossGrad(Builder& b, Value grad, Value x, Value t, int64_t reduction, double delta) {
  Value z = x - t;
  Value slope = b.Select(b.Lt(z, -delta), -delta, b.Select(b.Gt(z, delta), delta, z));
  return slope * LossGrad(grad, BroadcastCount(x, t), reduction);
}
LOWER("huber_loss_backward", HuberLossGrad);

// (t - 1) log(1 - x) - t log(x), logarithms no lower than -100.
Value BinaryCrossEntropy(Builder& b, Value x, Value t, std::optional<Value> weight, int64_t reduction) {
  Value loss = (t - 1.0) * b.Max(b.Log1p(-x), -100.0) - t * b.Max(b.Log(x), -100.0);
  return ReduceLoss(b, weight ? loss * *weight : loss, reduction);
}
LOWER("binary_cross_entropy", BinaryCrossEntropy);

// (x - t) / max(x (1 - x), 1e-12)
Value BinaryCrossEntropyGrad(Builder& b, Value grad, Value x, Value t, std::optional<Value> weight, int64_t reduction) {
  Value g = LossGrad(grad, x.numel(), reduction) * (x - t) / b.Max((1.0 - x) * x, 1e-12);
  return weight ? g * *weight : g;
}
LOWER("binary_cross_entropy_backward", BinaryCrossEntropyGrad);

// (1 - t) x - (1 + (pos_weight - 1) t) log(sigmoid(x)), with log(sigmoid(x)) = min(x, 0) - log1p(exp(-|x|)).
Value BinaryCrossEntropyWithLogits(Builder& b, Value x, Value t, std::optional<Value> weight,
                                   std::optional<Value> pos_weight, int64_t reduction) {
  Value log_sigmoid = b.Min(x, 0.0) - b.Log1p(b.Exp(-b.Abs(x)));
  if (pos_weight) log_sigmoid = ((*pos_weight - 1.0) * t + 1.0) * log_sigmoid;
  Value loss = (1.0 - t) * x - log_sigmoid;
  return ReduceLoss(b, weight ? loss * *weight : loss, reduction);
}
LOWER("binary_cross_entropy_with_logits", BinaryCrossEntropyWithLogits);

// log(1 + exp(-t x))
Value SoftMarginLoss(Builder& b, Value x, Value t, int64_t reduction) {
  return ReduceLoss(b, b.Log1p(b.Exp(-x * t)), reduction);
}
LOWER("soft_margin_loss", SoftMarginLoss);

// -t z / (1 + z) with z = exp(-t x)
Value SoftMarginLossGrad(Builder& b, Value grad, Value x, Value t, int64_t reduction) {
  Value z = b.Exp(-x * t);
  return -t * LossGrad(grad, BroadcastCount(x, t), reduction) * z / (z + 1.0);
}
LOWER("soft_margin_loss_backward", SoftMarginLossGrad);

}  // namespace
}  // namespace tpu::lowering
