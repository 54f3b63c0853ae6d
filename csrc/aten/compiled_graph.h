// A function of tensors, captured once per geometry of its arguments, run as one program.
//
// torch.compile's graphs, and whole training steps. A call reads its arguments, finds the program by their key, and records
// it like any op, so that modes, streams, errors, random numbers and donation are those of ops.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aten/call_key.h"
#include "runtime/op.h"

namespace tpu::aten {

struct CapturedGraph;
class BucketedGraph;

class CompiledGraph {
 public:
  using Values = std::vector<c10::IValue>;
  // Takes arguments and returns results: tensors, numbers, None. Arguments may be generators, to draw from (DrawFrom).
  using Function = std::function<Values(Values)>;

  // What the function is called with while it is captured.
  enum class StandIns {
    kPlaceholders,  // tensors of the same geometry, below autograd. Arguments on the host become tensors on the device.
    kArguments,     // the arguments themselves, which are afterwards as they were: the function knows them by identity
  };

  // `host_results`: by index, results that are copied to the host.
  CompiledGraph(std::string name, c10::DeviceIndex device, StandIns stand_ins, std::vector<bool> host_results,
                Function function);
  ~CompiledGraph();

  // Raises NotImplementedError when the function cannot be captured: it needs data, or the host. Nothing has run then.
  Values Run(const Values& arguments);

  // What an argument is at certain sizes.
  struct ArgumentAt {
    int64_t number = 0;  // of one that is a number
    hlo::Ints sizes, strides;
  };
  // Arguments whose sizes, or values, follow from a few symbols.
  struct Symbolic {
    std::vector<bool> which;  // by argument
    std::function<std::vector<ArgumentAt>(const hlo::Ints& point)>
        describe;  // all arguments; the others' do not matter
  };
  // As Run, by a program for all sizes with low <= symbol <= high. Nothing where these arguments need the exact program;
  // raises NotImplementedError where the function cannot be made such a program.
  std::optional<Values> RunBucketed(const Values& arguments, const Symbolic& symbolic, const hlo::Ints& symbols,
                                    const hlo::Ints& low, const hlo::Ints& high);
  // How many programs it has so far.
  int64_t captures() const { return captures_; }
  // For a function under capture: ops from now on draw from this one of its arguments; without one, from the device's
  // default generator.
  static void DrawFrom(const std::optional<at::Generator>& generator);

 private:
  std::string name_;
  c10::DeviceIndex device_;
  StandIns stand_ins_;
  std::vector<bool> host_results_;
  Function function_;
  CallTable<CapturedGraph> table_;
  CallTable<BucketedGraph> bucketed_;
  std::atomic<int64_t> captures_{0};
  std::atomic<uint64_t> generation_{0};  // of the tensors that the function found elsewhere
};

}  // namespace tpu::aten
