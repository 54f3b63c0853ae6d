// Entries as files of a directory: "ab/cdef...", by the digits of the key.
//
// A file is written under another name and renamed, so a reader meets all of it or nothing. Whoever dies while writing
// leaves a file that the next Prune removes, since nobody holds its lock any more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/directory.h"
#include "cache/store.h"

namespace tpu::cache {

class FileStore : public Store {
 public:
  // kInvalidArgument when the directory is not to be trusted, kUnavailable when it cannot be used.
  static Result<std::shared_ptr<FileStore>> Open(const std::string& path, Trust trust);

  // Reading also marks the entry as used now.
  Result<std::optional<std::string>> Read(const hlo::Fingerprint& key) override;
  Status Write(const hlo::Fingerprint& key, const std::string& bytes) override;
  void Remove(const hlo::Fingerprint& key) override;
  const std::string& name() const override { return directory_.path(); }
  const Directory& directory() const { return directory_; }

  struct File {
    hlo::Fingerprint key;
    uint64_t size_bytes;
    int64_t used_s;  // since 1970; one that the clock has not reached yet counts as now
  };
  // Of those there now, in no order; others may come and go.
  std::vector<File> List() const;
  // The first bytes of an entry, for listings; empty when it is gone.
  std::string Peek(const hlo::Fingerprint& key, size_t size_bytes) const;

  struct Pruned {
    uint64_t files = 0, bytes = 0, kept_bytes = 0;
  };
  // Removes what was used longest ago until at most `max_bytes` are kept, and what dead writers left.
  Pruned Prune(uint64_t max_bytes);
  // Whether nobody has pruned for an hour; marks that somebody does now.
  bool TakePruneTurn();

 private:
  explicit FileStore(Directory directory) : directory_(std::move(directory)) {}
  void RemoveIfAbandoned(const std::string& name) const;
  void ForEachName(const std::function<void(const std::string& folder, const std::string& name)>& visit) const;

  Directory directory_;
};

}  // namespace tpu::cache
