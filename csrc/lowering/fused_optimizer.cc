// Whole optimizer steps and gradient scaling as one program: torch.optim's fused=True, and torch.amp's GradScaler.

#include <cmath>

#include "lowering/elementwise.h"

namespace tpu::lowering {
namespace {

// What the fused steps share: gradients unscaled for AMP, and nothing done where it found an infinity.
struct Amp {
  std::optional<Value> grad_scale, found_inf;

  // The gradient as stored back, in the parameter's type.
  Value Unscaled(Builder& b, Value grad, Value param) const {
    grad = b.Cast(grad, param.dtype());
    return grad_scale ? grad / b.Cast(*grad_scale, grad.dtype()) : grad;
  }
  Value Keep(Builder& b, Value old, Value updated) const {
    if (!found_inf) return updated;
    Value skip = b.Reshape(b.Eq(*found_inf, 1.0), Ints{});
    return b.Select(skip, b.Cast(old, updated.dtype()), updated);
  }
};

Value Scalar0d(Builder& b, Value x, DType t) { return b.Reshape(b.Cast(x, t), Ints{}); }

// 1 - beta^step without the cancellation: beta is close to 1.
Value BiasCorrection(Builder& b, double beta, Value step) { return -b.Expm1(step * std::log(beta)); }

using Values = std::vector<Value>;

// Lists of results in the schema's order.
Results Join(std::initializer_list<const Values*> lists) {
  Results all;
  for (const Values* list : lists) all.insert(all.end(), list->begin(), list->end());
  return all;
}

// Kingma and Ba, 2015; decoupled decay: Loshchilov and Hutter, 2019. The learning rate is run-time data, for schedules;
// the other numbers are baked, so that 1 - beta is computed in double.
template <bool Decoupled>
Results Adam(Builder& b, Values params, Values grads, Values exp_avgs, Values exp_avg_sqs, Values max_exp_avg_sqs,
             Values steps, Value lr, double beta1, double beta2, double weight_decay, double eps, bool amsgrad,
             bool maximize, std::optional<Value> grad_scale, std::optional<Value> found_inf) {
  Amp amp{grad_scale, found_inf};
  for (size_t i = 0; i < params.size(); ++i) {
    Value p = params[i];
    DType t = p.dtype();
    Value rate = Scalar0d(b, lr, t), step = Scalar0d(b, steps[i], t);
    Value stored = amp.Unscaled(b, grads[i], p);
    Value g = maximize ? -stored : stored;
    if (weight_decay != 0.0) {
      if (Decoupled) {
        p = p - rate * weight_decay * p;
      } else {
        g = g + p * weight_decay;
      }
    }
    Value m = b.Cast(exp_avgs[i], t), v = b.Cast(exp_avg_sqs[i], t);
    m = m + (g - m) * (1.0 - beta1);
    v = v * beta2 + g * g * (1.0 - beta2);
    Value second = v;
    if (amsgrad) {
      second = b.Max(b.Cast(max_exp_avg_sqs[i], t), v);
      max_exp_avg_sqs[i] = amp.Keep(b, max_exp_avg_sqs[i], second);
    }
    Value root = b.Sqrt(BiasCorrection(b, beta2, step));
    Value denominator = b.Sqrt(second) / root + eps;
    p = p - rate / BiasCorrection(b, beta1, step) * m / denominator;
    params[i] = amp.Keep(b, params[i], p);
    grads[i] = amp.Keep(b, grads[i], stored);
    exp_avgs[i] = amp.Keep(b, exp_avgs[i], m);
    exp_avg_sqs[i] = amp.Keep(b, exp_avg_sqs[i], v);
  }
  return Join({&params, &grads, &exp_avgs, &exp_avg_sqs, &max_exp_avg_sqs});
}

Results Sgd(Builder& b, Values params, Values grads, Values momenta, double weight_decay, double momentum, Value lr,
            double dampening, bool nesterov, bool maximize, bool is_first_step, std::optional<Value> grad_scale,
            std::optional<Value> found_inf) {
  Amp amp{grad_scale, found_inf};
  for (size_t i = 0; i < params.size(); ++i) {
    Value p = params[i];
    Value stored = amp.Unscaled(b, grads[i], p);
    Value g = maximize ? -stored : stored;
    if (weight_decay != 0.0) g = g + p * weight_decay;
    if (i < momenta.size()) {
      Value m = is_first_step ? g : b.Cast(momenta[i], g.dtype()) * momentum + g * (1.0 - dampening);
      momenta[i] = amp.Keep(b, momenta[i], m);
      g = nesterov ? g + m * momentum : m;
    }
    params[i] = amp.Keep(b, params[i], p - Scalar0d(b, lr, p.dtype()) * g);
    grads[i] = amp.Keep(b, grads[i], stored);
  }
  return Join({&params, &grads, &momenta});
}

// Duchi et al., 2011. The overload with a float learning rate lists the steps among its results.
template <bool ReturnsSteps>
Results Adagrad(Builder& b, Values params, Values grads, Values sums, Values steps, Value lr, double lr_decay,
                double weight_decay, double eps, bool maximize, std::optional<Value> grad_scale,
                std::optional<Value> found_inf) {
  Amp amp{grad_scale, found_inf};
  for (size_t i = 0; i < params.size(); ++i) {
    Value p = params[i];
    DType t = p.dtype();
    Value stored = amp.Unscaled(b, grads[i], p);
    Value g = maximize ? -stored : stored;
    if (weight_decay != 0.0) g = g + p * weight_decay;
    Value sum = b.Cast(sums[i], t) + g * g;
    Value rate = Scalar0d(b, lr, t) / (1.0 + (Scalar0d(b, steps[i], t) - 1.0) * lr_decay);
    params[i] = amp.Keep(b, params[i], p - rate * g / (b.Sqrt(sum) + eps));
    grads[i] = amp.Keep(b, grads[i], stored);
    sums[i] = amp.Keep(b, sums[i], sum);
  }
  return ReturnsSteps ? Join({&params, &grads, &sums, &steps}) : Join({&params, &grads, &sums});
}

// found_inf becomes 1 where any gradient is not finite; the gradients are multiplied either way.
Results NonFiniteCheckAndUnscale(Builder& b, Values grads, Value found_inf, Value inv_scale) {
  Values unscaled;
  Value found = b.Ne(b.Reshape(found_inf, Ints{}), 0.0);
  for (Value g : grads) {
    found = b.Or(found, AnyOf(b, b.Not(b.IsFinite(g))));
    unscaled.push_back(g * Scalar0d(b, inv_scale, g.dtype()));
  }
  Values flag{b.Select(b.Reshape(found, found_inf.dims()), 1.0, found_inf)};
  return Join({&unscaled, &flag});
}

// The scale shrinks on an infinity, and grows after growth_interval steps without one unless it would overflow.
std::pair<Value, Value> UpdateScale(Builder& b, Value scale, Value tracker, Value found_inf, double growth_factor,
                                    double backoff_factor, int64_t growth_interval) {
  Value found = b.Reshape(b.Ne(found_inf, 0.0), Ints{});
  Value successes = tracker + 1.0;
  Value due = b.Reshape(b.Eq(successes, b.ConstInt(growth_interval, tracker.dtype())), Ints{});
  Value grown = scale * growth_factor;
  Value accepted = b.Select(b.And(due, b.Reshape(b.IsFinite(grown), Ints{})), grown, scale);
  return {b.Select(found, scale * backoff_factor, accepted),
          b.Select(b.Or(found, due), b.ZerosLike(tracker), successes)};
}

}  // namespace

LOWER("_fused_adam", Adam<false>);
LOWER("_fused_adam.tensor_lr", Adam<false>);
LOWER("_fused_adamw", Adam<true>);
LOWER("_fused_adamw.tensor_lr", Adam<true>);
LOWER("_fused_sgd", Sgd);
LOWER("_fused_sgd.tensor_lr", Sgd);
LOWER("_fused_adagrad", Adagrad<true>);
LOWER("_fused_adagrad.tensor_lr", Adagrad<false>);
LOWER("_amp_foreach_non_finite_check_and_unscale", NonFiniteCheckAndUnscale);
LOWER("_amp_update_scale", UpdateScale);

}  // namespace tpu::lowering
