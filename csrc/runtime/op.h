// A recordable operation: one key's worth of an ATen op, able to emit itself into any program.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hlo/builder.h"
#include "runtime/program.h"
#include "runtime/value.h"

namespace tpu::runtime {

// Emits an op: one hlo value per input in, one per output out. `rng` is ui64[2] {seed, offset}.
struct Emission {
  std::vector<hlo::Value> outputs;
  int64_t rng_words = 0;  // ui32 words drawn
};
using EmitFn = std::function<Emission(hlo::Builder&, std::span<const hlo::Value> inputs, hlo::Value rng)>;

// Immutable, but for the program that is compiled when first asked for.
class Op {
 public:
  struct Check {
    std::string op;
    int64_t dim, lower, upper;
    std::string assertion;  // empty: an index out of range
  };

  // Emits once, to learn the outputs. `inputs`: types of the Values it takes, in order. `replaces`: (input, output) pairs
  // where the output takes the input's place in a slot and may take its memory. Throws hlo::BuildError.
  Op(std::string name, EmitFn emit, std::vector<TypePtr> inputs, const std::vector<std::pair<int, int>>& replaces,
     bool checks);

  const std::string& name() const { return name_; }
  const EmitFn& emit() const { return emit_; }
  const std::vector<TypePtr>& inputs() const { return inputs_; }
  const std::vector<TypePtr>& outputs() const { return outputs_; }
  // Per output, the input that it simply is, or -1: nothing runs for it.
  const std::vector<int>& alias() const { return alias_; }
  bool all_alias() const { return all_alias_; }
  // (input, output) pairs where the output may take the input's memory.
  const std::vector<std::pair<int, int>>& replaces() const { return replaces_; }
  // Hash of what it computes, the same in every process.
  uint64_t content() const { return content_; }
  // Unique among the ops of this process.
  uint64_t id() const { return id_; }
  int64_t rng_words() const { return rng_words_; }
  int64_t output_bytes() const { return output_bytes_; }
  // Index checks of debug mode; the program has one i64[2] result each after the outputs.
  const std::vector<Check>& checks() const { return checks_; }
  // The StableHLO of the op alone.
  const std::string& text() const { return text_; }
  const std::shared_ptr<Program>& program(pjrt::Client& client);
  // Has the program made, in the background. True the first time.
  bool Prepare(pjrt::Client& client);

 private:
  std::string name_;
  EmitFn emit_;
  std::vector<TypePtr> inputs_, outputs_;
  std::vector<int> alias_;
  bool all_alias_ = false;
  int64_t rng_words_ = 0, output_bytes_ = 0;
  std::vector<Check> checks_;
  std::vector<std::pair<int, int>> replaces_;
  std::vector<std::pair<int, int>> donations_;  // as replaces_, of the program's results
  std::string text_;
  uint64_t content_ = 0, id_;
  std::once_flag once_;
  std::shared_ptr<Program> program_;
};
using OpPtr = std::shared_ptr<Op>;

// "f32[2,3], i64[]", for messages.
std::string TypesOf(std::span<const TypePtr> types);

// ui64[2]: a generator's seed and offset.
const TypePtr& RngStateType();

// A recorded sequence of ops.
struct Node {
  OpPtr op;
  std::vector<ValuePtr> inputs, outputs;
  int64_t rng_offset = 0;  // words drawn by the nodes before it
  ValuePtr rng;            // the state it draws from; null: the graph's
  std::string line;        // the user's, "train.py:12", where it is known
};

struct Graph {
  std::vector<Node> nodes;
  int64_t rng_words = 0;

  // The Values that nodes take and no node makes, in order of first use; those known on the host not among them.
  std::vector<ValuePtr> FreeValues() const;
  // Emits all nodes and returns `outputs`. `inputs[i]` is bound to `bound[i]`; a Value with host bytes is emitted as a
  // constant; one that is neither bound, produced nor known on the host throws hlo::BuildError.
  std::vector<hlo::Value> Emit(hlo::Builder& b, std::span<const ValuePtr> inputs, std::span<const hlo::Value> bound,
                               hlo::Value rng, std::span<const ValuePtr> outputs) const;
};

// Words are handed out in blocks of four (a Philox output): offsets advance by whole blocks.
constexpr int64_t RoundUpToBlock(int64_t words) { return (words + 3) / 4 * 4; }

}  // namespace tpu::runtime
