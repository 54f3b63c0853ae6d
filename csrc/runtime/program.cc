#include "runtime/program.h"

#include <atomic>
#include <mutex>

#include "cache/compilation.h"
#include "runtime/dump.h"

namespace tpu::runtime {
namespace {

using cache::Compilation;
using cache::CompilePool;

std::atomic<bool> recording{false};
std::mutex texts_mutex;  // guards Texts()
std::vector<Program::Text>& Texts() {
  static auto& texts = *new std::vector<Program::Text>;
  return texts;
}

void RecordText(const std::string& name, const std::string& text) {
  if (!recording.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(texts_mutex);
  Texts().push_back({name, text});
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

CompilePool::Urgency UrgencyOf(Program::Start start) {
  return start == Program::Start::kBackground ? CompilePool::Urgency::kBackground : CompilePool::Urgency::kNow;
}

}  // namespace

// What is to be done, shared with the pool: the program's compilation is known once its text is.
struct Program::Work {
  std::shared_ptr<pjrt::Client> client;
  std::function<std::string()> emit;
  std::vector<std::pair<int, int>> donations;
  std::string name;
  std::atomic<Start> start;

  std::once_flag once, dumped;
  std::shared_ptr<Compilation> compilation;     // made under `once`
  std::string dump;                             // where to, or empty; made under `once`
  std::atomic<Compilation*> resolved{nullptr};  // it, when made

  // Whoever comes first emits.
  Compilation& Resolve() {
    std::call_once(once, [this] {
      std::string text = emit();
      emit = nullptr;
      RecordText(name, text);
      dump = DumpPath(name, text);
      DumpText(dump, text);
      compilation =
          Compilation::Of(cache::CompileCache::Get(), *client, std::move(text), Options(*client), donations, name);
      resolved.store(compilation.get());
    });
    return *compilation;
  }
  void Begin() {
    Compilation& c = Resolve();
    const Start how = start.load();  // after `resolved` is set: what Compile() misses is seen here
    if (how == Start::kLoad) {
      c.Load();
    } else {
      c.Compile(UrgencyOf(how));
    }
  }
};

Program::Program(pjrt::Client& client, std::function<std::string()> emit, std::vector<std::pair<int, int>> donations,
                 std::string name, Start start)
    : donations_(std::move(donations)),
      name_(std::move(name)),
      work_(new Work{client.shared_from_this(), std::move(emit), donations_, name_, start, {}, {}, {}, {}, {}}) {
  CompilePool::Get().Run(UrgencyOf(start), [work = work_] {
    work->Begin();
    return CompilePool::Outcome::kDone;
  });
}

Program::Program(pjrt::Client& client, std::string text, std::vector<std::pair<int, int>> donations, std::string name,
                 Start start)
    : donations_(std::move(donations)),
      name_(std::move(name)),
      work_(new Work{client.shared_from_this(),
                     [&text] { return std::move(text); },
                     donations_,
                     name_,
                     start,
                     {},
                     {},
                     {},
                     {},
                     {}}) {
  work_->Begin();
}

Result<pjrt::LoadedExecutable*> Program::Executable() {
  Result<pjrt::LoadedExecutable*> executable = work_->Resolve().Await();
  if (!work_->dump.empty() && executable.ok())
    std::call_once(work_->dumped, [&] { DumpExecutable(work_->dump, (*executable)->executable()); });
  return executable;
}

bool Program::Ready() const {
  const Compilation* c = work_->resolved.load();
  return c != nullptr && (c->state() == Compilation::State::kReady || c->state() == Compilation::State::kFailed);
}

bool Program::Absent() const {
  const Compilation* c = work_->resolved.load();
  return c != nullptr && c->state() == Compilation::State::kAbsent;
}

void Program::Compile(bool background) {
  const Start start = background ? Start::kBackground : Start::kCompile;
  if (Start before = work_->start.load(); before != Start::kCompile) {
    // Never from urgent back to less.
    work_->start.compare_exchange_strong(before, start);
  }
  if (Compilation* c = work_->resolved.load()) return c->Compile(UrgencyOf(start));
  // Not emitted yet; if the job for that waits among less urgent ones, another does it.
  CompilePool::Get().Run(UrgencyOf(start), [work = work_] {
    work->Begin();
    return CompilePool::Outcome::kDone;
  });
}

void Program::RecordTexts(bool on) { recording.store(on, std::memory_order_relaxed); }

std::vector<Program::Text> Program::TakeTexts() {
  std::lock_guard lock(texts_mutex);
  return std::exchange(Texts(), {});
}

int64_t Program::CompileCount() { return static_cast<int64_t>(cache::CompileCache::Get().counters().compilations); }

}  // namespace tpu::runtime
