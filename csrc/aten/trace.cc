#include "aten/trace.h"

#include <algorithm>
#include <unordered_set>

#include "aten/tensor.h"
#include "runtime/recorder.h"

namespace tpu::aten {
namespace {

// torch.empty has no Value; as an argument it stands for data that will be there.
void GiveValue(const at::Tensor& tensor) {
  runtime::Slot& slot = SlotOf(tensor);
  if (slot.Get()) return;
  const int64_t count = static_cast<int64_t>(slot.size_bytes() / tensor.itemsize());
  const bool whole = tensor.is_contiguous() && tensor.storage_offset() == 0 && tensor.numel() == count;
  auto type = std::make_shared<runtime::Type>(
      runtime::Type{ToDType(tensor.scalar_type()), whole ? tensor.sizes().vec() : hlo::Ints{count}});
  Write(tensor, c10::make_intrusive<runtime::Value>(slot.device(), std::move(type)));
}

}  // namespace

std::string Trace(const std::vector<at::Tensor>& arguments, const std::function<std::vector<at::Tensor>()>& fn) {
  runtime::Capture capture;
  std::vector<runtime::ValuePtr> inputs;
  std::unordered_set<const runtime::Value*> known;
  const auto add_input = [&](runtime::ValuePtr value) {
    if (known.insert(value.get()).second) inputs.push_back(std::move(value));
  };
  for (const at::Tensor& argument : arguments) {
    GiveValue(argument);
    add_input(SlotOf(argument).Get());
  }
  const std::vector<at::Tensor> results = fn();
  for (runtime::ValuePtr& value : capture.graph.FreeValues()) add_input(std::move(value));

  hlo::Builder b;
  std::vector<hlo::Value> bound;
  for (const runtime::ValuePtr& input : inputs) bound.push_back(b.Parameter(input->type()));
  hlo::Value rng = b.Parameter(*runtime::RngStateType());
  std::vector<runtime::ValuePtr> outputs;
  for (const at::Tensor& result : results) {
    TORCH_CHECK(IsTpu(result) && SlotOf(result).Get(),
                "torchtpu.aot: expected initialised tpu tensors as results, found one on ", result.device());
    outputs.push_back(SlotOf(result).Get());
  }
  const size_t returned = outputs.size();
  for (const runtime::Capture::SlotWrite& write : capture.writes) {
    // A tensor from outside: what it held is a parameter.
    if (!write.before || !known.contains(write.before.get())) continue;
    runtime::ValuePtr now = write.slot->Get();
    if (std::find(outputs.begin(), outputs.end(), now) == outputs.end()) outputs.push_back(std::move(now));
  }
  std::vector<hlo::Value> values = capture.graph.Emit(b, inputs, bound, rng, outputs);
  for (size_t i = 0; i < returned; ++i)
    values[i] = hlo::ReadView(b, values[i], ViewOf(results[i]), ToDType(results[i].scalar_type()));
  if (capture.graph.rng_words == 0) b.DropParameter(rng);
  return b.Finish(values);
}

}  // namespace tpu::aten
