// A function's ops as one StableHLO module, without running anything.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hlo/dynamic_program.h"

namespace tpu::aten {

using TracedFunction = std::function<std::vector<at::Tensor>()>;

// Records `fn` (which returns its result tensors) under a Capture and emits what it did as one module. Every tensor that it
// reads is a parameter, `arguments` first; the results are the returned tensors', then the tensors' that it wrote to.
// Nothing runs, and every tensor is afterwards as it was.
std::string Trace(const std::vector<at::Tensor>& arguments, const TracedFunction& fn);

// The arguments, and the function of them, at certain sizes.
using FunctionAt = std::function<std::pair<std::vector<at::Tensor>, TracedFunction>(const hlo::Ints& point)>;

struct DynamicTrace {
  std::string text;
  hlo::Ints low;  // the smallest sizes that it is known for: one that falls together with another size may be left out
};

// As Trace, one module for all sizes with low <= symbol <= high, whose dimensions are "?" where they depend on one. Raises
// NotImplementedError where the function is not one program for all of them, draws random numbers, or reads a tensor that
// is none of its arguments.
DynamicTrace TraceDynamic(const FunctionAt& at, std::span<const hlo::SymbolSource> symbols, const hlo::Ints& low,
                          const hlo::Ints& high);

}  // namespace tpu::aten
