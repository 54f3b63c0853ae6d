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

// Process-wide default, overridden per thread by ModeGuard (torchtpu.mode as a context manager).
Mode CurrentMode();
void SetDefaultMode(Mode mode);
void SetThreadMode(std::optional<Mode> mode);
std::optional<Mode> ThreadMode();

// Records `op` on `device` and returns its outputs, pending. In strict mode it is submitted at once; in debug mode also
// awaited and its index checks read (the Status is that error); under a Capture it joins the capture's graph.
// `rng_bytes`: 16 bytes {seed, offset} when the op draws random words.
Result<std::vector<ValuePtr>> Record(Device& device, const OpPtr& op, std::vector<ValuePtr> inputs, const std::string& rng_bytes);

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

 private:
  Capture* outer_;
};

// The number of programs run so far in this process (not counting aliases), for tests and explain.
int64_t RunCount();

}  // namespace tpu::runtime
