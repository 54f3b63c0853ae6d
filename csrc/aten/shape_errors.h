// What PyTorch's kernels say of shapes that do not fit, where its meta kernels (written again in Python) say it otherwise.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace tpu::aten {

// To be called when the meta kernel of `op` has refused these arguments, on the meta device. Raises PyTorch's own error, or
// returns where it has none of its own.
void RaiseShapeError(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

}  // namespace tpu::aten
