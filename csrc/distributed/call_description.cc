#include "distributed/call_description.h"

#include <ATen/ops/item.h>
#include <c10/core/ScalarType.h>

#include "aten/dtypes.h"
#include "aten/errors.h"

namespace tpu::distributed {

std::string Describe(at::ScalarType type) { return std::string(c10::getDtypeNames(type).first); }

std::string Describe(const at::Tensor& tensor) {
  std::string text = Describe(tensor.scalar_type()) + "[";
  for (int64_t i = 0; i < tensor.dim(); ++i) text += (i ? ", " : "") + std::to_string(tensor.size(i));
  return text + "]";
}

ReduceOpPlan PlanOf(const c10d::ReduceOp& op, const at::Tensor& tensor) {
  using Op = c10d::ReduceOp;
  const auto plan = [&]() -> ReduceOpPlan {
    switch (op.op_) {
      case Op::SUM: return {Reduction::kSum, {}, "SUM"};
      case Op::AVG: return {Reduction::kMean, {}, "AVG"};
      case Op::PRODUCT: return {Reduction::kProduct, {}, "PRODUCT"};
      case Op::MIN: return {Reduction::kMin, {}, "MIN"};
      case Op::MAX: return {Reduction::kMax, {}, "MAX"};
      case Op::BAND: return {Reduction::kAnd, {}, "BAND"};
      case Op::BOR: return {Reduction::kOr, {}, "BOR"};
      case Op::BXOR: return {Reduction::kXor, {}, "BXOR"};
      case Op::PREMUL_SUM: {
        const auto* supplement = dynamic_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
        TORCH_CHECK(supplement, "PREMUL_SUM: expected a factor");
        const at::Tensor& factor = supplement->tensor_factor;
        return {Reduction::kSum, factor.defined() ? factor.item().toDouble() : supplement->double_factor, "PREMUL_SUM"};
      }
      default: TORCH_CHECK(false, "unknown ReduceOp ", static_cast<int>(op.op_));
    }
  }();
  const Status status = CheckReduction(plan.reduction, aten::ToDType(tensor.scalar_type()));
  TORCH_CHECK_TYPE(status.ok(), "ReduceOp.", plan.name, " of ", Describe(tensor.scalar_type()),
                   " tensors is not defined");
  return plan;
}

}  // namespace tpu::distributed
