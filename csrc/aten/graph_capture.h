// The parts of a compiled graph's call: its arguments as they are read, and what a capture made of the function.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "aten/compiled_graph.h"
#include "hlo/view.h"

namespace tpu::aten {

// One geometry's program, and how its results become tensors.
struct CapturedGraph {
  struct Storage {
    size_t size_bytes;
    int output;  // of the op, or -1: uninitialised
  };
  struct Result {
    enum class Kind : uint8_t { kConstant, kArgument, kAlias, kNew } kind;
    int index = 0;  // the argument, or the storage
    c10::IValue constant;
    c10::ScalarType dtype = c10::ScalarType::Undefined;
    hlo::View view;
  };
  runtime::OpPtr op;                         // null when there is nothing to compute
  std::vector<int> inputs;                   // arguments whose Values the op takes, in order
  std::vector<runtime::ValuePtr> constants;  // then these, which the function found elsewhere
  std::vector<runtime::ValuePtr> watched;    // of them, those that a tensor outside has
  std::vector<Storage> storages;
  std::vector<Result> results;
  std::vector<std::pair<int, int>> writes;  // (argument, output)
  struct Generator {
    int argument;
    int64_t words;
  };
  std::vector<Generator> generators;  // the op takes their states after the arguments' Values

  // A tensor that the function found elsewhere has been written since: its Value is no tensor's any more.
  bool stale() const {
    return std::any_of(watched.begin(), watched.end(), [](const runtime::ValuePtr& v) { return !v->held(); });
  }
};

// The arguments of one call: their Values, which of them share a storage, and the key.
class GraphArguments {
 public:
  // `symbolic`: by index, arguments whose sizes are no part of the key, and whose Values are not read.
  GraphArguments(runtime::Device& device, CompiledGraph::StandIns stand_ins, const CompiledGraph::Values& arguments,
                 const std::vector<bool>& symbolic = {});

  CallKey key;
  std::vector<runtime::ValuePtr> values;  // per argument; null: uninitialised, or no tensor
  std::vector<int> first;                 // per argument: the first one with the same storage

 private:
  void ReadTensor(const at::Tensor& tensor, size_t i, bool symbolic);
  void ReadHostTensor(const at::Tensor& tensor, CompiledGraph::StandIns stand_ins, size_t i);
  void ReadNumber(const c10::IValue& value);
  void FindShared();

  runtime::Device& device_;
  std::vector<std::pair<const runtime::Slot*, int>> slots_;
};

// Runs the function under a Capture, on stand-ins for these arguments. Raises NotImplementedError where it cannot.
std::unique_ptr<CapturedGraph> CaptureGraph(const std::string& name, runtime::Device& device,
                                            CompiledGraph::StandIns stand_ins, const CompiledGraph::Function& function,
                                            const CompiledGraph::Values& arguments, const GraphArguments& reading);

// The results as the caller gets them.
CompiledGraph::Values ResultsOf(const std::vector<CapturedGraph::Result>& captured,
                                const CompiledGraph::Values& arguments, const std::vector<c10::Storage>& storages,
                                const std::vector<bool>& host_results);

}  // namespace tpu::aten
