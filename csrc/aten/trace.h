// A function's ops as one StableHLO module, without running anything.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace tpu::aten {

// Records `fn` (which returns its result tensors) under a Capture and emits what it did as one module. Every tensor that it
// reads is a parameter, `arguments` first; the results are the returned tensors', then the tensors' that it wrote to.
// Nothing runs, and every tensor is afterwards as it was.
std::string Trace(const std::vector<at::Tensor>& arguments, const std::function<std::vector<at::Tensor>()>& fn);

}  // namespace tpu::aten
