// At most one process of the machine compiles a program: a lock per key, which the kernel lets go when its holder dies.
#pragma once

#include <optional>
#include <string>

#include "base/file_descriptor.h"
#include "cache/directory.h"
#include "hlo/fingerprint.h"

namespace tpu::cache {

// Held until destroyed, or until the process ends in whatever way.
class FileLock {
 public:
  enum class Outcome {
    kHeld,         // ours
    kBusy,         // another's, now
    kUnavailable,  // this file system has no locks, or we may not write: go on without
  };
  // Never blocks. All keys share one file, a byte each: nothing to clean up.
  static Outcome Try(const Directory& directory, const hlo::Fingerprint& key, std::optional<FileLock>* lock);

 private:
  explicit FileLock(FileDescriptor fd) : fd_(std::move(fd)) {}
  FileDescriptor fd_;
};

}  // namespace tpu::cache
