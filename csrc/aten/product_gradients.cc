// The derivatives of the gradients of linear and matmul, and what vmap makes of those: PyTorch has a kernel for either
// gradient but leaves these to the backend.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/linear_backward.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/matmul_backward.h>

#include "aten/whole_op.h"

namespace tpu::aten {
namespace {

using at::Tensor;

// grad of x @ y, and of y, by products of stacks of matrices; a vector is a matrix of one row or column.
std::tuple<Tensor, Tensor> MatmulParts(const Tensor& grad, const Tensor& x, const Tensor& y, std::array<bool, 2> mask) {
  if (!grad.defined()) return {};
  const Tensor rows = x.dim() == 1 ? x.unsqueeze(0) : x;
  const Tensor columns = y.dim() == 1 ? y.unsqueeze(1) : y;
  Tensor g = y.dim() == 1 ? grad.unsqueeze(-1) : grad;
  if (x.dim() == 1) g = g.unsqueeze(-2);
  const auto like = [](const Tensor& sum, const Tensor& matrix, const Tensor& operand) {
    return sum.sum_to_size(matrix.sizes()).reshape(operand.sizes());
  };
  std::tuple<Tensor, Tensor> out;
  if (mask[0]) std::get<0>(out) = like(g.matmul(columns.mH()), rows, x);
  if (mask[1]) std::get<1>(out) = like(rows.mH().matmul(g), columns, y);
  return out;
}

std::tuple<Tensor, Tensor, Tensor> LinearParts(const Tensor& x, const Tensor& grad, const Tensor& weight,
                                               std::array<bool, 3> mask) {
  if (!grad.defined()) return {};
  const int64_t in = weight.size(-1), out = weight.dim() == 1 ? 1 : weight.size(0);
  const Tensor g = grad.reshape({-1, out});
  std::tuple<Tensor, Tensor, Tensor> gradients;
  if (mask[0]) std::get<0>(gradients) = g.matmul(weight.conj().reshape({out, in})).reshape(x.sizes());
  if (mask[1]) std::get<1>(gradients) = g.t().matmul(x.conj().reshape({-1, in})).reshape(weight.sizes());
  if (mask[2]) std::get<2>(gradients) = g.sum(0);
  return gradients;
}

template <typename... Tensors>
bool IsWhole(c10::DispatchKeySet keys, const Tensors&... tensors) {
  const bool wanted = at::GradMode::is_enabled() && (tensors.requires_grad() || ...);
  return !wanted && IsOpaque(keys, {c10::IValue(tensors)...});
}

std::tuple<Tensor, Tensor> MatmulBackward(c10::DispatchKeySet keys, const Tensor& grad, const Tensor& x,
                                          const Tensor& y, std::array<bool, 2> mask) {
  if (!grad.defined() || !IsWhole(keys, grad, x, y)) return MatmulParts(grad, x, y, mask);
  at::AutoDispatchBelowADInplaceOrView below;
  return at::matmul_backward(grad, x, y, mask);
}

std::tuple<Tensor, Tensor, Tensor> LinearBackward(c10::DispatchKeySet keys, const Tensor& x, const Tensor& grad,
                                                  const Tensor& weight, std::array<bool, 3> mask) {
  if (!grad.defined() || !IsWhole(keys, x, grad, weight)) return LinearParts(x, grad, weight, mask);
  at::AutoDispatchBelowADInplaceOrView below;
  return at::linear_backward(x, grad, weight, mask);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("matmul_backward", TORCH_FN(MatmulBackward));
  m.impl("linear_backward", TORCH_FN(LinearBackward));
}

TORCH_LIBRARY_IMPL(aten, FuncTorchBatched, m) {
  m.impl("matmul_backward", TORCH_FN(MatmulParts));
  m.impl("linear_backward", TORCH_FN(LinearParts));
}

}  // namespace
}  // namespace tpu::aten
