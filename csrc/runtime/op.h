// A recordable operation: one key's worth of an ATen op, able to emit itself into any program.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "hlo/builder.h"
#include "runtime/program.h"
#include "runtime/value.h"

namespace tpu::runtime {

// Emits the op: one hlo value per input in, one per output out. `rng` is ui64[2] {seed, offset}.
using EmitFn = std::function<std::vector<hlo::Value>(hlo::Builder&, std::span<const hlo::Value> inputs, hlo::Value rng)>;

struct Op {
  std::string name;  // "aten::add.Tensor"
  EmitFn emit;
  std::vector<TypePtr> inputs;   // types of the slots' Values and host scalars, in order
  std::vector<TypePtr> outputs;  // types of the resulting Values
  // donations[j] = i: output j may take the memory of input i (it replaces that slot's Value).
  std::vector<std::pair<int, int>> donations;  // (input, output)
  int64_t rng_words = 0;  // ui32 words drawn; 0: takes no rng
  bool checks = false;    // debug mode: emits index checks

  // The op alone as a program; built on first use (recording thread).
  struct Standalone {
    std::shared_ptr<Program> program;  // null when every output is an alias of an input
    std::vector<int> alias;            // per output: the input it is, or -1
    struct Check {
      std::string op;
      int64_t dim, lower, upper;
    };
    std::vector<Check> checks;  // one i64[2] result each, after the outputs
  };
  const Standalone& standalone(pjrt::Client& client);

 private:
  std::mutex mutex_;
  std::optional<Standalone> standalone_;
};
using OpPtr = std::shared_ptr<Op>;

// A recorded sequence of ops.
struct Node {
  OpPtr op;
  std::vector<ValuePtr> inputs, outputs;
  int64_t rng_offset = 0;  // words before this node
};

struct Graph {
  std::vector<Node> nodes;
  int64_t rng_words = 0;

  // Emits all nodes. `bound` gives the graph's inputs; a Value with host bytes is emitted as a constant. A Value that is
  // neither bound, produced nor known on the host fails with BuildError.
  std::vector<hlo::Value> Emit(hlo::Builder& b, std::span<const ValuePtr> inputs, std::span<const hlo::Value> bound,
                               hlo::Value rng, std::span<const ValuePtr> outputs) const;
};

}  // namespace tpu::runtime
