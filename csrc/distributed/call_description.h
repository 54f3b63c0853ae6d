// What a call is called: for messages, and for ranks to find out whether they call the same.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <optional>
#include <string>

#include "distributed/reduction.h"

namespace tpu::distributed {

// "float32[2, 4]"
std::string Describe(const at::Tensor& tensor);
// "float32"
std::string Describe(at::ScalarType type);

// A ReduceOp: what is done to the contributions, and by what each is multiplied before.
struct ReduceOpPlan {
  Reduction reduction;
  std::optional<double> factor;
  std::string name;  // "SUM"
};
// Raises where the elements cannot be reduced so. Reads a PREMUL_SUM's tensor.
ReduceOpPlan PlanOf(const c10d::ReduceOp& op, const at::Tensor& tensor);

}  // namespace tpu::distributed
