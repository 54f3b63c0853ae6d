// A graph that a Capture has recorded, as one op; and the tensors that stand for others while it records.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "aten/tensor.h"
#include "runtime/op.h"

namespace tpu::aten {

// A tensor of `like`'s geometry, which may be anything, on `device`: over the storage of `shares` if that is given, else
// over a new one as large as like's, without a Value.
at::Tensor PlaceholderFor(runtime::Device& device, const at::Tensor& like, const at::Tensor* shares);

// A result of a graph: what a storage holds, or that read through a view.
struct GraphResult {
  runtime::ValuePtr value;
  std::optional<hlo::View> view;
  DType dtype;
};
// The tensor's elements, dense and row-major. One that was never written reads as zeros.
GraphResult DenseResult(const at::Tensor& tensor);

// `inputs`: the Values that stand for the op's inputs. `replaces`: as runtime::Op's.
runtime::OpPtr MakeGraphOp(std::string name, runtime::Graph graph, std::vector<runtime::ValuePtr> inputs,
                           std::vector<GraphResult> results, const std::vector<std::pair<int, int>>& replaces);

}  // namespace tpu::aten
