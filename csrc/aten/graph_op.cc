#include "aten/graph_op.h"

#include "runtime/recorder.h"

namespace tpu::aten {
namespace {

struct GraphOp {
  runtime::Graph graph;
  std::vector<runtime::ValuePtr> inputs, outputs;
  std::vector<GraphResult> results;

  runtime::Emission Emit(hlo::Builder& b, std::span<const hlo::Value> bound, hlo::Value rng) const {
    runtime::Emission emission;
    emission.rng_words = graph.rng_words;
    emission.outputs = graph.Emit(b, inputs, bound, rng, outputs);
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].view)
        emission.outputs[i] = hlo::ReadView(b, emission.outputs[i], *results[i].view, results[i].dtype);
    }
    return emission;
  }
};

}  // namespace

at::Tensor PlaceholderFor(runtime::Device& device, const at::Tensor& like, const at::Tensor* shares) {
  const int64_t count = static_cast<int64_t>(like.storage().nbytes() / like.itemsize());
  at::Tensor tensor = EmptyContiguous(device, {count}, like.scalar_type());
  if (shares) tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(shares->storage());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  tensor._set_conj(like.is_conj());
  tensor._set_neg(like.is_neg());
  return tensor;
}

GraphResult DenseResult(const at::Tensor& tensor) {
  const runtime::Slot& slot = SlotOf(tensor);
  const DType dtype = ToDType(tensor.scalar_type());
  runtime::ValuePtr value = slot.Get();
  if (!value) {
    const auto count = static_cast<int64_t>(slot.size_bytes() / tensor.itemsize());
    runtime::TypePtr type = std::make_shared<runtime::Type>(runtime::Type{dtype, {count}});
    value = c10::make_intrusive<runtime::Value>(slot.device(), type, std::string(slot.size_bytes(), '\0'));
  }
  return {std::move(value), ViewOf(tensor), dtype};
}

runtime::OpPtr MakeGraphOp(std::string name, runtime::Graph graph, std::vector<runtime::ValuePtr> inputs,
                           std::vector<GraphResult> results, const std::vector<std::pair<int, int>>& replaces) {
  auto op = std::make_shared<GraphOp>();
  op->graph = std::move(graph);
  std::vector<runtime::TypePtr> types;
  for (const runtime::ValuePtr& input : inputs) types.push_back(input->type_ptr());
  for (const GraphResult& result : results) op->outputs.push_back(result.value);
  op->inputs = std::move(inputs);
  op->results = std::move(results);
  return std::make_shared<runtime::Op>(
      std::move(name),
      [op](hlo::Builder& b, std::span<const hlo::Value> bound, hlo::Value rng) { return op->Emit(b, bound, rng); },
      std::move(types), replaces, runtime::CurrentMode() == runtime::Mode::kDebug);
}

}  // namespace tpu::aten
