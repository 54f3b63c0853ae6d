// A run of ops that was recorded and has not run: its nodes, and the key that says which program they make.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/op.h"

namespace tpu::runtime {

// Where an op of a recording takes an input from: an earlier op of it, a Value from before, or the host.
struct Source {
  enum class Kind : uint8_t { kProduced, kTaken, kHost } kind;
  uint32_t index;  // of Recording::produced() or taken(); kHost: the first element in the pack of its type
  uint64_t word() const { return static_cast<uint64_t>(kind) << 32 | index; }
  static Source FromWord(uint64_t word) { return {static_cast<Kind>(word >> 32), static_cast<uint32_t>(word)}; }
};

// Numbers known on the host, of one element type, that one parameter brings to the program: whatever they are, the
// program stays the same.
struct Pack {
  DType dtype;
  int64_t count = 0;
  std::string bytes;
};

// Threads: one at a time. A Value's place is that in the recording which met it last.
class Recording {
 public:
  struct Node {
    OpPtr op;
    std::vector<ValuePtr> inputs;   // the generator's state, if it draws, last
    std::vector<ValuePtr> outputs;  // those that are no input
    uint32_t line = 0;              // explain's; 0: unknown
  };

  Recording();
  void Append(Node node);
  uint64_t id() const { return id_; }
  bool empty() const { return nodes_.empty(); }
  std::vector<Node>& nodes() { return nodes_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  // Per node: the op's id, then a Source for each input.
  const std::vector<uint64_t>& key() const { return key_; }
  const std::vector<Value*>& produced() const { return produced_; }
  const std::vector<Value*>& taken() const { return taken_; }  // in order of first use
  const std::vector<Pack>& packs() const { return packs_; }
  int64_t produced_bytes() const { return produced_bytes_; }

 private:
  Source Find(const ValuePtr& value);

  uint64_t id_;
  std::vector<Node> nodes_;
  std::vector<uint64_t> key_;
  std::vector<Value*> produced_, taken_;  // nodes_ owns them
  std::vector<Pack> packs_;
  int64_t produced_bytes_ = 0;
};

}  // namespace tpu::runtime
