// Every op, whatever the mode, is recorded here; modes differ in when what was recorded is flushed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/explain.h"
#include "runtime/op.h"

namespace tpu::runtime {

enum class Mode { kStrict, kDebug, kFuse };

// Process-wide: a backward pass runs on autograd's own threads. Leaving fuse mode flushes what it has recorded.
Mode CurrentMode();
void SetDefaultMode(Mode mode);

// A recorded op's results, pending. While it lives they count as held, whether or not slots have them yet.
class Recorded {
 public:
  explicit Recorded(std::vector<ValuePtr> values);
  ~Recorded();
  Recorded(Recorded&&) noexcept = default;
  Recorded& operator=(Recorded&&) = delete;
  const ValuePtr& operator[](size_t i) const { return values_[i]; }
  const std::vector<ValuePtr>& values() const { return values_; }

 private:
  std::vector<ValuePtr> values_;
};

// Records `op` on `device`. In strict mode it is submitted at once; in debug mode also awaited and its index checks read
// (the Status is that error); in fuse mode it joins the device's window; under a Capture, the capture's graph.
// `rng_bytes`: 16 bytes {seed, offset} when the op draws random words.
Result<Recorded> Record(Device& device, const OpPtr& op, std::vector<ValuePtr> inputs, std::string rng_bytes);

// Submits what fuse mode has recorded on `device`.
void Flush(Device& device, FlushReason reason);
// Submits what fuse mode has recorded, if `value` is a result of it. A tensor must hold it.
void FlushRecorded(Value& value, FlushReason reason);
// Blocks until `value` is ready, for `reason`. A tensor must hold it.
void Await(Value& value, FlushReason reason);
// Waits for `value`, which a tensor must hold, and copies its row-major bytes; its error if it failed.
Status ReadToHost(Value& value, void* destination, size_t size_bytes);

// While alive, ops recorded by this thread join one graph and nothing runs. Used for decompositions, ahead-of-time
// checks and compiled graphs. Nests; the innermost counts.
class Capture {
 public:
  Capture();
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  static Capture* Current();
  // While alive, this thread records as if it captured nothing.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Capture* paused_;
  };

  Graph graph;
  // Where ops draw random words: a state that is an input of the graph, with the words drawn so far; null: the graph's own.
  struct RandomSource {
    ValuePtr state;
    int64_t words = 0;
  };
  RandomSource* random = nullptr;
  // The user's line that ops are recorded for. If `find_lines`, where it is empty, the one that the thread is at.
  std::string line;
  bool find_lines = false;
  // To be called before a slot is written. When the capture ends the slot gets back what it holds now.
  void NoteWrite(Slot& slot, std::shared_ptr<const void> keep_alive);

  struct SlotWrite {
    Slot* slot;
    ValuePtr before;
    std::shared_ptr<const void> keep_alive;  // of the slot's storage
  };
  std::vector<SlotWrite> writes;  // so far

 private:
  Capture* outer_;
};

// The number of programs run so far in this process (not counting aliases), for tests and explain.
int64_t RunCount();
void CountRun();

}  // namespace tpu::runtime
