// Data between host and device, and single elements read by the program.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/value.h"

namespace tpu::aten {

// A tensor with the same elements whose slot has them as one row-major Value of its sizes: itself where it is one.
at::Tensor Dense(const at::Tensor& tensor);

// Copies `source` (contiguous, on the host) to the device. Small data and pinned memory with `non_blocking` do not wait.
runtime::ValuePtr Upload(runtime::Device& device, const at::Tensor& source, bool non_blocking);

}  // namespace tpu::aten
