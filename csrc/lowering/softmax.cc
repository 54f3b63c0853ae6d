// The softmax family along one dimension, and its gradients.
#include <limits>

#include "lowering/reduction.h"

namespace tpu::lowering {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// e / sum(e) with e = exp(x - max x); subtracting the max keeps exp finite.
Value SoftmaxOver(Builder& b, Value x, const Ints& dims) {
  Value e = b.Exp(x - b.Max(x, dims));
  return e / b.Sum(e, dims);
}
Value Softmax(Builder& b, Value x, Dim dim, bool /*half_to_float*/) { return SoftmaxOver(b, x, Reduced(x, dim)); }
LOWER("_softmax", Softmax);

// y * (g - sum(g * y))
Value SoftmaxGrad(Builder& b, Value grad, Value y, Dim dim, DType /*input_dtype*/) {
  return y * (grad - b.Sum(grad * y, Reduced(y, dim)));
}
LOWER("_softmax_backward_data", SoftmaxGrad);

Value LogSoftmax(Builder& b, Value x, Dim dim, bool /*half_to_float*/) {
  Value shifted = x - b.Max(x, Reduced(x, dim));
  return shifted - b.Log(b.Sum(b.Exp(shifted), Reduced(x, dim)));
}
LOWER("_log_softmax", LogSoftmax);

// g - exp(y) * sum(g)
Value LogSoftmaxGrad(Builder& b, Value grad, Value y, Dim dim, DType /*input_dtype*/) {
  return grad - b.Exp(y) * b.Sum(grad, Reduced(y, dim));
}
LOWER("_log_softmax_backward_data", LogSoftmaxGrad);

// A row of nothing but -inf gives zeros.
Value SafeSoftmax(Builder& b, Value x, Dim dim, std::optional<DType>) {
  x = b.Cast(x, Accumulator(b));
  Value masked = b.All(b.Eq(x, -kInf), Reduced(x, dim));
  return b.Select(masked, 0.0, SoftmaxOver(b, x, Reduced(x, dim)));
}
LOWER("_safe_softmax", SafeSoftmax);

Ints MaskedDims(Value x, const std::optional<Dim>& dim) { return Reduced(x, dim.value_or(Dim{x.rank() - 1})); }

// True masks out. mask_type 1 is a padding mask [batch, length] of x [batch, heads, length, length]; others broadcast.
Value MaskedSoftmax(Builder& b, Value x, Value mask, std::optional<Dim> dim, std::optional<int64_t> mask_type) {
  if (mask_type == 1 && mask.rank() == 2 && x.rank() == 4) mask = b.Reshape(mask, Ints{mask.dim(0), 1, 1, mask.dim(1)});
  return SoftmaxOver(b, b.Select(mask, -kInf, x), MaskedDims(x, dim));
}
LOWER("_masked_softmax", TypedAsFirst<MaskedSoftmax>::Apply, kExact);

Value MaskedSoftmaxGrad(Builder& b, Value grad, Value y, Value mask, std::optional<Dim> dim) {
  Value product = b.Select(mask, 0.0, grad * y);
  return b.Select(mask, 0.0, y * (grad - b.Sum(product, MaskedDims(y, dim))));
}
LOWER("_masked_softmax_backward", TypedAsFirst<MaskedSoftmaxGrad>::Apply, kExact);

}  // namespace
}  // namespace tpu::lowering
