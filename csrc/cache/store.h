// A place that keeps entries by key: a directory, or something reached through a hook.
//
// Threads: every method may be called from any thread. Errors are for notices: a store that fails is as good as empty.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "cache/key.h"

namespace tpu::cache {

class Store {
 public:
  virtual ~Store() = default;
  // The bytes kept under a key, not checked; nothing if there are none.
  virtual Result<std::optional<std::string>> Read(const hlo::Fingerprint& key) = 0;
  // All of it or nothing: a reader never meets a part, even if this process dies now.
  virtual Status Write(const hlo::Fingerprint& key, const std::string& bytes) = 0;
  virtual void Remove(const hlo::Fingerprint& key) = 0;
  // For messages: the path or URL.
  virtual const std::string& name() const = 0;
};

}  // namespace tpu::cache
