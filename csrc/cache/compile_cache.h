// Compiled programs in two tiers beyond the process's memory: the host's directory, and a shared one.
//
// Nothing here is an error to its caller: a tier that does not work is as good as empty, with one notice.
// Threads: every method may be called from any thread; those that touch a tier must not be called with the
// interpreter's lock held, since a shared tier may be written in Python.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "cache/counters.h"
#include "cache/file_lock.h"
#include "cache/file_store.h"
#include "cache/settings.h"
#include "cache/store.h"
#include "pjrt/client.h"

namespace tpu::cache {

class CompileCache {
 public:
  // Opens nothing yet.
  explicit CompileCache(Settings settings) : settings_(std::move(settings)) {}
  // The process's, by its environment at the first call.
  static CompileCache& Get();

  const Settings& settings() const { return settings_; }

  // Of a program on a client. `donations`: (parameter, result) pairs. Touches no tier.
  Key KeyOf(const pjrt::Client& client, std::string_view stablehlo, const pjrt::CompileOptions& options,
            std::span<const std::pair<int, int>> donations);

  // Looks through the tiers; null if none has it. What the shared tier gives is kept by the host's too.
  std::unique_ptr<pjrt::LoadedExecutable> Find(const pjrt::Client& client, const Key& key);
  // Only where another process of this machine may have put it meanwhile.
  std::unique_ptr<pjrt::LoadedExecutable> FindNear(const pjrt::Client& client, const Key& key);
  // The right to compile a program on this machine.
  FileLock::Outcome TryLock(const Key& key, std::optional<FileLock>* lock);
  // Compiles and counts; `seconds` receives how long it took.
  Result<std::unique_ptr<pjrt::LoadedExecutable>> Compile(const pjrt::Client& client, std::string_view stablehlo,
                                                          const pjrt::CompileOptions& options, double* seconds);
  // Keeps an executable where other processes of this machine find it. Returns what else is to be done, but can wait
  // (the shared tier, a look at the directory's size); null if nothing.
  std::function<void()> Keep(const Key& key, const std::string& name, const pjrt::Executable& executable,
                             double compile_seconds);

  void CountRequest(bool in_memory);
  Counters counters() const;
  // Adds what was not yet added to the directory's totals.
  void Flush();
  // No tier is asked any more.
  void Close();

  // Null if there is none, or it cannot be used.
  std::shared_ptr<FileStore> host();
  std::shared_ptr<Store> shared();

 private:
  std::unique_ptr<pjrt::LoadedExecutable> FindIn(Store& store, const pjrt::Client& client, const Key& key,
                                                 double Counters::*hits, std::string* bytes);
  void WriteTo(Store& store, const Key& key, const std::string& bytes);
  std::function<void()> PruneWhenDue(uint64_t written);
  std::shared_ptr<FileStore> OpenHost() const;
  std::shared_ptr<Store> OpenShared() const;
  template <typename Update>
  void Count(const Update& update) {
    std::lock_guard lock(counters_mutex_);
    update(counters_);
  }

  const Settings settings_;
  std::atomic<bool> closed_{false};
  std::once_flag host_once_, shared_once_;
  std::shared_ptr<FileStore> host_;
  std::shared_ptr<Store> shared_;
  std::mutex environments_mutex_;  // guards environments_
  std::unordered_map<const pjrt::Client*, std::string> environments_;
  mutable std::mutex counters_mutex_;  // guards the three below
  Counters counters_, flushed_;
  std::optional<uint64_t> written_since_prune_;  // none: no look at the directory by this process yet
};

}  // namespace tpu::cache
