// The last resort: an op that nothing covers runs on the host CPU, counted and never silent.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <string>

namespace tpu::aten {

// Copies the tensors to the host, runs the CPU kernel there, copies results and mutated arguments back. Warns once per op.
// Raises NotImplementedError under TORCHTPU_FALLBACK=error and inside captured functions.
void HostFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Calls per op ("aten::name.overload") since the start or the last reset.
std::map<std::string, int64_t> FallbackCounts();
void ResetFallbackCounts();

}  // namespace tpu::aten
