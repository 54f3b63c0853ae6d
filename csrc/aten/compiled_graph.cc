#include "aten/compiled_graph.h"

#include "aten/bucketed_graph.h"
#include "aten/errors.h"
#include "aten/generator.h"
#include "aten/graph_capture.h"
#include "aten/guard.h"
#include "aten/tensor.h"
#include "runtime/recorder.h"

namespace tpu::aten {

using c10::IValue;
using runtime::ValuePtr;

CompiledGraph::CompiledGraph(std::string name, c10::DeviceIndex device, StandIns stand_ins,
                             std::vector<bool> host_results, Function function)
    : name_(std::move(name)),
      device_(device),
      stand_ins_(stand_ins),
      host_results_(std::move(host_results)),
      function_(std::move(function)) {}

CompiledGraph::~CompiledGraph() = default;

CompiledGraph::Values CompiledGraph::Run(const Values& arguments) {
  runtime::Device& device = DeviceAt(device_);
  const GraphArguments reading(device, stand_ins_, arguments);
  CallKey key = reading.key;
  key.Add(generation_.load());
  CapturedGraph* captured = table_.Find(key);
  if (captured && captured->stale()) {
    key = reading.key;
    key.Add(++generation_);
    captured = nullptr;
  }
  if (!captured) {
    try {
      captured = table_.Insert(key, CaptureGraph(name_, device, stand_ins_, function_, arguments, reading));
    } catch (const hlo::BuildError& error) {
      Raise({error.code, name_ + ": " + error.what()});
    }
    ++captures_;
  }

  // Before anything runs: memory that the device has not is refused here.
  std::vector<c10::Storage> storages;
  storages.reserve(captured->storages.size());
  for (const CapturedGraph::Storage& storage : captured->storages)
    storages.push_back(NewStorage(device, storage.size_bytes));
  if (captured->op) {
    std::vector<ValuePtr> inputs;
    inputs.reserve(captured->inputs.size() + captured->constants.size() + 1);
    for (int argument : captured->inputs) inputs.push_back(reading.values[argument]);
    for (const auto& [argument, words] : captured->generators) {
      inputs.push_back(c10::make_intrusive<runtime::Value>(
          device, runtime::RngStateType(), NextState(arguments[argument].toGenerator(), device_, words)));
    }
    inputs.insert(inputs.end(), captured->constants.begin(), captured->constants.end());
    std::string rng;
    if (captured->op->rng_words() > 0 && !runtime::Capture::Current())
      rng = NextState(std::nullopt, device_, captured->op->rng_words());
    const runtime::Recorded values =
        ValueOrRaise(runtime::Record(device, captured->op, std::move(inputs), std::move(rng)));
    for (size_t i = 0; i < storages.size(); ++i) {
      const int output = captured->storages[i].output;
      if (output >= 0) SlotOf(*storages[i].unsafeGetStorageImpl()).Set(values[output]);
    }
    for (const auto& [argument, output] : captured->writes) {
      at::Tensor tensor = arguments[argument].toTensor();
      if (IsTpu(tensor)) {
        Write(tensor, values[output]);
      } else {
        tensor.copy_(FromValue(values[output]).view(tensor.sizes()));
      }
    }
  }

  return ResultsOf(captured->results, arguments, storages, host_results_);
}

std::optional<CompiledGraph::Values> CompiledGraph::RunBucketed(const Values& arguments, const Symbolic& symbolic,
                                                                const hlo::Ints& symbols, const hlo::Ints& low,
                                                                const hlo::Ints& high) {
  // What is being captured, and checks of indices, need the exact program.
  if (runtime::Capture::Current() || runtime::CurrentMode() == runtime::Mode::kDebug) return std::nullopt;
  runtime::Device& device = DeviceAt(device_);
  const GraphArguments reading(device, stand_ins_, arguments, symbolic.which);
  const auto key_of = [&] {
    CallKey key = reading.key;
    key.Add(generation_.load());
    key.AddInts(high);
    return key;
  };
  CallKey key = key_of();
  BucketedGraph* graph = bucketed_.Find(key);
  if (graph && graph->stale()) {
    ++generation_;
    key = key_of();
    graph = nullptr;
  }
  if (!graph) {
    try {
      graph = bucketed_.Insert(key, BucketedGraph::Build(name_, device, function_, arguments, symbolic, {low, high}));
    } catch (const hlo::BuildError& error) {
      TORCH_CHECK_NOT_IMPLEMENTED(false, error.what());
    }
    ++captures_;
  }
  return graph->Run(arguments, reading, symbols, host_results_);
}

}  // namespace tpu::aten
