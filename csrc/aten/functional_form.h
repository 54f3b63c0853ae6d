// The in-place and out= forms of operators whose functional form has a kernel of its own (nonzero, masked_select).
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace tpu::aten {

bool HasFunctionalForm(const c10::OperatorHandle& op);

// Calls the functional form and copies its results to what `op` writes; leaves those on the stack.
void CallFunctionalForm(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace tpu::aten
