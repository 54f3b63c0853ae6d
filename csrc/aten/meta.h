// PyTorch's own shape and type inference: the op run on meta tensors, on a miss only.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <vector>

#include "aten/call.h"

namespace tpu::aten {

struct MetaResult {
  // The arguments as the op left them: mutated ones may have been resized.
  std::vector<c10::IValue> arguments;
  std::vector<c10::IValue> returns;
  std::vector<c10::Warning> warnings;  // said of these arguments; that of a resized out= argument excepted
};

// Nothing when the op has no meta kernel. PyTorch's own errors (shapes, dtypes) pass through.
std::optional<MetaResult> RunMeta(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

// Set by the Python layer: imports torch._meta_registrations, which registers further meta kernels.
void SetMetaImportHook(void (*hook)());

// Keeps autograd, functorch and Python modes away from calls made on behalf of one that passed them already.
class BelowAutograd {
 public:
  BelowAutograd();

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

}  // namespace tpu::aten
