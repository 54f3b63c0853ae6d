// Ops without a lowering, by PyTorch's decomposition table.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <optional>

#include "aten/kernel.h"

namespace tpu::aten {

// Runs PyTorch's Python decomposition of `op` on the stack's arguments and leaves the results there; false, with the stack
// untouched, when there is none. Set by the Python layer.
using DecomposeHook = bool (*)(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void SetDecomposeHook(DecomposeHook hook);

// The op as one fused entry: its decomposition recorded on placeholders, under a Capture. Null when there is none, or when
// it needs the data (then *op_by_op is true: it can still run as separate ops).
std::unique_ptr<Entry> BuildDecomposedEntry(const c10::OperatorHandle& op, const Call& call, bool* op_by_op);

// The decomposition with every op of it dispatched on its own.
void DecomposeOpByOp(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace tpu::aten
