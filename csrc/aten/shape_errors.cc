#include "aten/shape_errors.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

namespace tpu::aten {
namespace {

// As at::addmm's.
void CheckProduct(int64_t rows, int64_t inner, const at::Tensor& y, bool transposed) {
  const int64_t y_rows = y.size(transposed ? 1 : 0), columns = y.size(transposed ? 0 : 1);
  TORCH_CHECK(inner == y_rows, "mat1 and mat2 shapes cannot be multiplied (", rows, "x", inner, " and ", y_rows, "x",
              columns, ")");
}

void CheckAdded(const at::Tensor& added, int64_t rows, int64_t columns) {
  if (added.defined()) (void)added.expand({rows, columns});
}

void Mm(const at::Tensor& x, const at::Tensor& y) {
  if (x.dim() == 2 && y.dim() == 2) CheckProduct(x.size(0), x.size(1), y, /*transposed=*/false);
}

void Addmm(const at::Tensor& added, const at::Tensor& x, const at::Tensor& y) {
  Mm(x, y);
  if (x.dim() == 2 && y.dim() == 2) CheckAdded(added, x.size(0), y.size(1));
}

void Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (x.dim() == 0 || weight.dim() != 2) return;
  const int64_t rows = x.numel() / std::max<int64_t>(x.size(-1), 1);
  CheckProduct(rows, x.size(-1), weight, /*transposed=*/true);
  CheckAdded(bias, rows, weight.size(0));
}

}  // namespace

void RaiseShapeError(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  const std::string& name = op.schema().name();
  const auto tensor = [&](size_t i) { return arguments[i].isTensor() ? arguments[i].toTensor() : at::Tensor(); };
  if (name == "aten::mm" || name == "aten::matmul") return Mm(tensor(0), tensor(1));
  if (name == "aten::addmm" || name == "aten::addmm_") return Addmm(tensor(0), tensor(1), tensor(2));
  if (name == "aten::linear") return Linear(tensor(0), tensor(1), tensor(2));
}

}  // namespace tpu::aten
