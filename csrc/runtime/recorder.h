// Every op, whatever the mode, is recorded here; modes differ in when what was recorded is flushed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/op.h"

namespace tpu::runtime {

enum class Mode { kStrict, kDebug };

// Process-wide: a backward pass runs on autograd's own threads.
Mode CurrentMode();
void SetDefaultMode(Mode mode);

// Records `op` on `device` and returns its outputs, pending. In strict mode it is submitted at once; in debug mode also
// awaited and its index checks read (the Status is that error); under a Capture it joins the capture's graph.
// `rng_bytes`: 16 bytes {seed, offset} when the op draws random words.
Result<std::vector<ValuePtr>> Record(Device& device, const OpPtr& op, std::vector<ValuePtr> inputs,
                                     std::string rng_bytes);

// Waits for `value` and copies its row-major bytes; its error if it failed.
Status ReadToHost(Device& device, Value& value, void* destination, size_t size_bytes);

// While alive, ops recorded by this thread join one graph and nothing runs. Used for decompositions, ahead-of-time
// checks and compiled graphs. Nests; the innermost counts.
class Capture {
 public:
  Capture();
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  static Capture* Current();

  Graph graph;
  // Slots written so far. When the capture ends they get back what they held before.
  struct SlotWrite {
    Slot* slot;
    ValuePtr before;
    std::shared_ptr<const void> keep_alive;  // of the slot's storage
  };
  std::vector<SlotWrite> writes;

 private:
  Capture* outer_;
};

// The number of programs run so far in this process (not counting aliases), for tests and explain.
int64_t RunCount();

}  // namespace tpu::runtime
