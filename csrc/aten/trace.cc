#include "aten/trace.h"

#include <algorithm>
#include <unordered_set>

#include "aten/errors.h"
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

// Emits what `fn` does into `b`; gives the results.
std::vector<hlo::Value> TraceInto(hlo::Builder& b, const std::vector<at::Tensor>& arguments, const TracedFunction& fn,
                                  bool for_export) {
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

  std::vector<hlo::Value> bound;
  for (const runtime::ValuePtr& input : inputs) bound.push_back(b.Parameter(input->type()));
  hlo::Value rng = b.Parameter(*runtime::RngStateType());
  std::vector<runtime::ValuePtr> outputs;
  for (const at::Tensor& result : results) {
    TORCH_CHECK(IsTpu(result) && SlotOf(result).Get(),
                "a traced function: expected initialised tpu tensors as results, found one on ", result.device());
    outputs.push_back(SlotOf(result).Get());
  }
  const size_t returned = outputs.size();
  std::vector<hlo::Value> before;  // of the outputs after these
  for (const runtime::Capture::SlotWrite& write : capture.writes) {
    // A tensor from outside: what it held is a parameter.
    if (!write.before || !known.contains(write.before.get())) continue;
    runtime::ValuePtr now = write.slot->Get();
    if (std::find(outputs.begin(), outputs.end(), now) != outputs.end()) continue;
    before.push_back(bound[std::find(inputs.begin(), inputs.end(), write.before) - inputs.begin()]);
    outputs.push_back(std::move(now));
  }
  std::vector<hlo::Value> emitted = capture.graph.Emit(b, inputs, bound, rng, outputs), values;
  for (size_t i = 0; i < returned; ++i)
    values.push_back(hlo::ReadView(b, emitted[i], ViewOf(results[i]), ToDType(results[i].scalar_type())));
  for (size_t i = returned; i < emitted.size(); ++i) {
    // Running statistics in evaluation are written as they were.
    if (emitted[i].id() != before[i - returned].id()) values.push_back(emitted[i]);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(!for_export || capture.graph.rng_words == 0,
                              "a traced function draws random numbers. Call .eval() on the module.");
  TORCH_CHECK_NOT_IMPLEMENTED(!for_export || inputs.size() == arguments.size(),
                              "a traced function reads a tensor that is none of its arguments");
  if (capture.graph.rng_words == 0) b.DropParameter(rng);
  return values;
}

}  // namespace

std::string Trace(const std::vector<at::Tensor>& arguments, const TracedFunction& fn) {
  hlo::Builder b;
  const std::vector<hlo::Value> results = TraceInto(b, arguments, fn, /*for_export=*/false);
  return b.Finish(results);
}

DynamicTrace TraceDynamic(const FunctionAt& at, std::span<const hlo::SymbolSource> symbols, const hlo::Ints& low,
                          const hlo::Ints& high) {
  // A size that falls together with another of the program makes two samples differ; other samples may not.
  constexpr int kAttempts = 3;
  for (int attempt = 0;; ++attempt) {
    try {
      const hlo::Samples points(low, high, attempt);
      std::vector<std::unique_ptr<hlo::Builder>> builders;
      std::vector<std::vector<hlo::Value>> results;
      for (const hlo::Ints& point : points.points()) {
        const auto [arguments, fn] = at(point);
        builders.push_back(std::make_unique<hlo::Builder>());
        builders.back()->UseComparableForms();
        results.push_back(TraceInto(*builders.back(), arguments, fn, /*for_export=*/true));
      }
      return {hlo::DynamicText(*hlo::SymbolicProgram::Fit(points, builders, results), symbols), points.low()};
    } catch (const hlo::BuildError& error) {
      if (attempt + 1 == kAttempts) Raise({error.code, error.what()});
    }
  }
}

}  // namespace tpu::aten
