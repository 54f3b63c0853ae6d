// Thrown by a lowering for an argument that the operation has no meaning for, and that PyTorch's kernels refuse in words
// of their own.
#pragma once

#include "hlo/builder.h"

namespace tpu::lowering {

struct RefusedArgument : hlo::BuildError {
  using BuildError::BuildError;
};

}  // namespace tpu::lowering
