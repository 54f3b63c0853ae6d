#include "runtime/program.h"

#include <atomic>
#include <chrono>
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
  std::promise<Made> made;
  made.set_value(Begin(client, std::move(text), donations_, name_, start));
  compilation_ = made.get_future().share();
}

Program::Program(pjrt::Client& client, std::function<std::string()> emit, std::vector<std::pair<int, int>> donations,
                 std::string name, Start start)
    : donations_(std::move(donations)), name_(std::move(name)) {
  auto made = std::make_shared<std::promise<Made>>();
  compilation_ = made->get_future().share();
  cache::CompilePool::Get().Run(
      start == Start::kCompile ? Urgency::kNow : Urgency::kBackground,
      [made, start, client = client.shared_from_this(), emit = std::move(emit), donations = donations_, name = name_] {
        try {
          made->set_value(Begin(*client, emit(), donations, name, start));
        } catch (...) {
          made->set_exception(std::current_exception());
        }
        return cache::CompilePool::Outcome::kDone;
      });
}

Program::Made Program::Begin(pjrt::Client& client, std::string text, std::span<const std::pair<int, int>> donations,
                             const std::string& name, Start start) {
  if (recording.load(std::memory_order_relaxed)) {
    std::lock_guard lock(texts_mutex);
    Texts().push_back({name, text});
  }
  Made made = Compilation::Of(cache::CompileCache::Get(), client, std::move(text), Options(client), donations, name);
  switch (start) {
    case Start::kCompile: made->Compile(Urgency::kNow); break;
    case Start::kBackground: made->Compile(Urgency::kBackground); break;
    case Start::kLoad: made->Load(); break;
  }
  return made;
}

Program::Made Program::compilation() const {
  if (compilation_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return nullptr;
  try {
    return compilation_.get();
  } catch (const std::exception&) {
    return nullptr;
  }
}

Result<pjrt::LoadedExecutable*> Program::Executable() {
  try {
    return compilation_.get()->Await();
  } catch (const std::exception& error) {  // of the text's emission, or the process is ending
    return Status(Code::kInternal, error.what());
  }
}

bool Program::Ready() const {
  const Made made = compilation();
  return made && (made->state() == Compilation::State::kReady || made->state() == Compilation::State::kFailed);
}

bool Program::Absent() const {
  const Made made = compilation();
  return made && made->state() == Compilation::State::kAbsent;
}

void Program::Compile(bool background) {
  if (const Made made = compilation()) made->Compile(background ? Urgency::kBackground : Urgency::kNow);
}

void Program::RecordTexts(bool on) { recording.store(on, std::memory_order_relaxed); }

std::vector<Program::Text> Program::TakeTexts() {
  std::lock_guard lock(texts_mutex);
  return std::exchange(Texts(), {});
}

int64_t Program::CompileCount() { return static_cast<int64_t>(cache::CompileCache::Get().counters().compilations); }

}  // namespace tpu::runtime
