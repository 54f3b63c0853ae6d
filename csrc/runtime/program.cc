#include "runtime/program.h"

#include <atomic>
#include <mutex>

#include "cache/compilation.h"

namespace tpu::runtime {
namespace {

using cache::Compilation;
using Urgency = cache::CompilePool::Urgency;

std::atomic<bool> recording{false};
std::mutex texts_mutex;  // guards Texts()
std::vector<Program::Text>& Texts() {
  static auto& texts = *new std::vector<Program::Text>;
  return texts;
}

// On the CPU plugin level 2 compiles dots ten times faster than the default and the code runs as fast or faster.
pjrt::CompileOptions Options(const pjrt::Client& client) {
  pjrt::CompileOptions options;
  if (client.is_cpu()) {
    options.xla_flags["xla_backend_optimization_level"] = int64_t{2};
    options.xla_flags["xla_cpu_enable_fast_min_max"] = false;  // else max(2, NaN) is 2
  }
  return options;
}

}  // namespace

Program::Program(pjrt::Client& client, std::string text, std::vector<std::pair<int, int>> donations, std::string name,
                 Start start)
    : donations_(std::move(donations)), name_(std::move(name)) {
  if (recording.load(std::memory_order_relaxed)) {
    std::lock_guard lock(texts_mutex);
    Texts().push_back({name_, text});
  }
  compilation_ =
      Compilation::Of(cache::CompileCache::Get(), client, std::move(text), Options(client), donations_, name_);
  switch (start) {
    case Start::kCompile: compilation_->Compile(Urgency::kNow); break;
    case Start::kBackground: compilation_->Compile(Urgency::kBackground); break;
    case Start::kLoad: compilation_->Load(); break;
  }
}

Result<pjrt::LoadedExecutable*> Program::Executable() { return compilation_->Await(); }

bool Program::Ready() const {
  const Compilation::State state = compilation_->state();
  return state == Compilation::State::kReady || state == Compilation::State::kFailed;
}

bool Program::Absent() const { return compilation_->state() == Compilation::State::kAbsent; }

void Program::Compile(bool background) { compilation_->Compile(background ? Urgency::kBackground : Urgency::kNow); }

void Program::RecordTexts(bool on) { recording.store(on, std::memory_order_relaxed); }

std::vector<Program::Text> Program::TakeTexts() {
  std::lock_guard lock(texts_mutex);
  return std::exchange(Texts(), {});
}

int64_t Program::CompileCount() { return static_cast<int64_t>(cache::CompileCache::Get().counters().compilations); }

}  // namespace tpu::runtime
