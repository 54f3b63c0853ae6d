// What the generic kernel must know of one operator: which arguments are tensors, data or attributes, which are written,
// and which lowering serves it. Worked out once per operator from its schema.
#pragma once

#include <ATen/core/function_schema.h>

#include <optional>
#include <string>
#include <vector>

#include "lowering/lowering.h"

namespace tpu::aten {

enum class Role : uint8_t {
  kTensor,              // Tensor, Tensor?
  kTensorList,          // Tensor[]
  kOptionalTensorList,  // Tensor?[]
  kScalar,              // Scalar, Scalar? as run-time data
  kScalarList,          // Scalar[] as run-time data
  kAttribute,           // part of the key
  kGenerator,
  kIgnored,  // no lowering needs it: device, layout, memory_format
};

struct ArgumentPlan {
  Role role = Role::kAttribute;
  bool mutated = false;
  std::optional<c10::Scalar> default_scalar;  // kScalar: this value is baked (alpha=1), all others are data
};

// How a schema's arguments become a lowering's parameters.
struct LoweringMatch {
  const lowering::Lowering* lowering = nullptr;
  bool foreach = false;  // once per list element
  std::vector<int>
      arguments;  // per lowering parameter (extra Rng excluded): the schema argument, or -1 for its default
};

struct SchemaPlan {
  std::string name;  // "aten::add.out"
  std::vector<ArgumentPlan> arguments;
  LoweringMatch match;
  // Per return: the mutated argument that it is, or -1 for a new tensor (or list of them).
  std::vector<int> returns;
};

// The lowering for a schema: its own name, or the functional form of an in-place, out= or _foreach_ variant.
// Raises if a lowering's parameters do not fit the schema.
LoweringMatch FindLowering(const c10::FunctionSchema& schema);
SchemaPlan MakePlan(const c10::FunctionSchema& schema);

}  // namespace tpu::aten
