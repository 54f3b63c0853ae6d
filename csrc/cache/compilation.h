// The way of one distinct program to its executable: found in a tier of the compile cache, or compiled.
//
// Programs of the same text share one: that is the cache's memory tier.
// Threads: every method may be called from any thread; the work is done on the compile pool.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cache/compile_cache.h"
#include "cache/compile_pool.h"
#include "pjrt/client.h"

namespace tpu::cache {

class Compilation : public std::enable_shared_from_this<Compilation> {
 public:
  enum class State {
    kPending,  // being looked for, or compiled
    kAbsent,   // in no tier, and nobody has asked to compile it
    kReady,
    kFailed,
  };
  // The process's own for this program, or a new one, for which nothing has been done yet. The cache outlives it.
  static std::shared_ptr<Compilation> Of(CompileCache& cache, pjrt::Client& client, std::string text,
                                         const pjrt::CompileOptions& options,
                                         std::span<const std::pair<int, int>> donations, const std::string& name);

  // Starts looking in the tiers, unless that is done or under way.
  void Load();
  // Starts compiling what no tier has. A greater urgency than before moves it ahead.
  void Compile(CompilePool::Urgency urgency);
  State state() const { return state_.load(std::memory_order_acquire); }
  // Blocks; compiles if need be.
  Result<pjrt::LoadedExecutable*> Await();

  Compilation(CompileCache& cache, std::shared_ptr<pjrt::Client> client, Key key, std::string text,
              pjrt::CompileOptions options, std::string name);

 private:
  using Clock = std::chrono::steady_clock;
  using Urgency = CompilePool::Urgency;
  void Enqueue(Urgency urgency);  // under mutex_
  CompilePool::Outcome Step(Urgency urgency);
  CompilePool::Outcome Advance(Urgency urgency);
  bool StopAfterLooking(Urgency urgency);
  void CompileAndKeep();
  void Finish(Result<std::unique_ptr<pjrt::LoadedExecutable>> result);
  bool finished() const { return state() == State::kReady || state() == State::kFailed; }

  CompileCache& cache_;
  const std::shared_ptr<pjrt::Client> client_;
  const Key key_;
  const pjrt::CompileOptions options_;
  const std::string name_;

  std::atomic<State> state_{State::kPending};
  std::mutex mutex_;  // guards the four below
  std::condition_variable changed_;
  std::optional<Urgency> queued_;          // the greatest of the jobs given to the pool
  std::optional<Urgency> compile_wanted_;  // the greatest asked for
  bool stepping_ = false;                  // a thread of the pool is at it, and has what follows to itself

  std::string text_;  // until finished
  bool looked_ = false;
  std::optional<FileLock> lock_;
  std::optional<Clock::time_point> waiting_since_;
  Status error_;  // these two are read by all once finished
  std::unique_ptr<pjrt::LoadedExecutable> executable_;
};

}  // namespace tpu::cache
