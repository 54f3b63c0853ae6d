// A loop as one op of a captured function: its body is captured once and runs on the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace tpu::aten {

using LoopFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// Records `while condition(carried..., others...): carried = body(carried..., others...)`; gives the last ones carried.
//
// Functions are called once each, on stand-ins, and have no effects. For a Capture under way. Raises NotImplementedError
// where they need data or the host, or draw random numbers, and where what is carried changes its shape or dtype.
std::vector<at::Tensor> RecordWhile(const LoopFunction& condition, const LoopFunction& body,
                                    const std::vector<at::Tensor>& carried, const std::vector<at::Tensor>& others);

// Records a scan over the first dimension of `slices`, of which there is at least one:
// `carried, rows = body(carried..., slice..., others...)` in turn. Gives the last ones carried, then the rows of all turns,
// stacked. As RecordWhile.
std::vector<at::Tensor> RecordScan(const LoopFunction& body, const std::vector<at::Tensor>& carried,
                                   const std::vector<at::Tensor>& slices, const std::vector<at::Tensor>& others);

}  // namespace tpu::aten
