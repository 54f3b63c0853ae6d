#include "cache/compilation.h"

#include <unordered_map>

#include "cache/notice.h"

namespace tpu::cache {
namespace {

using Table = std::unordered_map<hlo::Fingerprint, std::weak_ptr<Compilation>, hlo::FingerprintHash>;

hlo::Fingerprint InProcess(const CompileCache& cache, const pjrt::Client& client, const Key& key) {
  return hlo::Combine(key.id, {reinterpret_cast<uintptr_t>(&cache), reinterpret_cast<uintptr_t>(&client)});
}

}  // namespace

Compilation::Compilation(CompileCache& cache, std::shared_ptr<pjrt::Client> client, Key key, std::string text,
                         pjrt::CompileOptions options, std::string name)
    : cache_(cache),
      client_(std::move(client)),
      key_(std::move(key)),
      options_(std::move(options)),
      name_(std::move(name)),
      text_(std::move(text)) {}

std::shared_ptr<Compilation> Compilation::Of(CompileCache& cache, pjrt::Client& client, std::string text,
                                             const pjrt::CompileOptions& options,
                                             std::span<const std::pair<int, int>> donations, const std::string& name) {
  static auto& mutex = *new std::mutex;  // guards the two below
  static auto& table = *new Table;
  static size_t sweep_at = 1024;

  Key key = cache.KeyOf(client, text, options, donations);
  std::lock_guard lock(mutex);
  std::weak_ptr<Compilation>& slot = table[InProcess(cache, client, key)];
  std::shared_ptr<Compilation> compilation = slot.lock();
  cache.CountRequest(compilation != nullptr);
  if (compilation) return compilation;
  compilation =
      std::make_shared<Compilation>(cache, client.shared_from_this(), std::move(key), std::move(text), options, name);
  slot = compilation;
  if (table.size() > sweep_at) {
    std::erase_if(table, [](const auto& item) { return item.second.expired(); });
    sweep_at = 2 * table.size() + 1024;
  }
  return compilation;
}

void Compilation::Enqueue(Urgency urgency) {
  if (queued_ && *queued_ <= urgency) return;
  queued_ = urgency;
  const bool runs =
      CompilePool::Get().Run(urgency, [self = shared_from_this(), urgency] { return self->Step(urgency); });
  if (runs || stepping_) return;
  error_ = Status(Code::kUnavailable, "compiling " + name_ + ": expected a running process, found one that is ending");
  state_.store(State::kFailed, std::memory_order_release);
  changed_.notify_all();
}

void Compilation::Load() {
  std::lock_guard lock(mutex_);
  if (state() == State::kPending) Enqueue(Urgency::kNow);
}

void Compilation::Compile(Urgency urgency) {
  std::lock_guard lock(mutex_);
  if (finished()) return;
  if (!compile_wanted_ || urgency < *compile_wanted_) compile_wanted_ = urgency;
  state_.store(State::kPending, std::memory_order_release);
  Enqueue(urgency);
}

Result<pjrt::LoadedExecutable*> Compilation::Await() {
  if (!finished()) {
    Compile(Urgency::kNow);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finished(); });
  }
  if (state() == State::kFailed) return error_;
  return executable_.get();
}

CompilePool::Outcome Compilation::Step(Urgency urgency) {
  {
    std::lock_guard lock(mutex_);
    if (finished() || stepping_) return CompilePool::Outcome::kDone;
    stepping_ = true;
  }
  const CompilePool::Outcome outcome = Advance(urgency);
  std::lock_guard lock(mutex_);
  if (outcome == CompilePool::Outcome::kLater || finished()) stepping_ = false;
  return outcome;
}

CompilePool::Outcome Compilation::Advance(Urgency urgency) {
  if (!looked_) {
    looked_ = true;
    if (auto found = cache_.Find(*client_, key_)) {
      Finish(std::move(found));
      return CompilePool::Outcome::kDone;
    }
  }
  if (StopAfterLooking(urgency)) return CompilePool::Outcome::kDone;

  switch (cache_.TryLock(key_, &lock_)) {
    case FileLock::Outcome::kHeld:
      // Whoever had it before may have put the program there since we looked.
      if (auto found = cache_.FindNear(*client_, key_)) {
        Finish(std::move(found));
        lock_.reset();
        return CompilePool::Outcome::kDone;
      }
      break;
    case FileLock::Outcome::kBusy: {
      if (!waiting_since_) waiting_since_ = Clock::now();
      const std::chrono::duration<double> waited = Clock::now() - *waiting_since_;
      if (waited.count() < cache_.settings().wait_s) return CompilePool::Outcome::kLater;
      Notice("wait", "another process has been compiling " + name_ + " for " +
                         std::to_string(static_cast<int>(waited.count())) + " s. It is compiled here too.");
      break;
    }
    case FileLock::Outcome::kUnavailable: break;
  }
  CompileAndKeep();
  return CompilePool::Outcome::kDone;
}

// The decision and the end of the step are one, so that no Compile() falls between them.
bool Compilation::StopAfterLooking(Urgency urgency) {
  std::lock_guard lock(mutex_);
  if (compile_wanted_ && *compile_wanted_ <= urgency) return false;
  stepping_ = false;
  queued_.reset();
  if (compile_wanted_) {
    Enqueue(*compile_wanted_);  // at its own urgency, which is less than this job's
  } else {
    state_.store(State::kAbsent, std::memory_order_release);
    changed_.notify_all();
  }
  return true;
}

void Compilation::CompileAndKeep() {
  double seconds = 0;
  Finish(cache_.Compile(*client_, text_, options_, &seconds));
  std::function<void()> rest;
  if (state() == State::kReady) rest = cache_.Keep(key_, name_, executable_->executable(), seconds);
  lock_.reset();
  if (!rest) return;
  const bool runs = CompilePool::Get().Run(Urgency::kIdle, [rest] {
    rest();
    return CompilePool::Outcome::kDone;
  });
  if (!runs) rest();
}

void Compilation::Finish(Result<std::unique_ptr<pjrt::LoadedExecutable>> result) {
  std::lock_guard lock(mutex_);
  if (finished()) return;  // the process is ending
  const bool ok = result.ok();
  if (ok) {
    executable_ = std::move(result).value();
  } else {
    error_ = result.status();
  }
  state_.store(ok ? State::kReady : State::kFailed, std::memory_order_release);
  changed_.notify_all();
}

}  // namespace tpu::cache
