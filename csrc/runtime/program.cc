#include "runtime/program.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tpu::runtime {
namespace {

std::atomic<int64_t> compile_count{0};

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

// Two compilations at once: the recording thread of a training step meets dozens of new ops in a row.
class CompilePool {
 public:
  static CompilePool& Get() {
    static auto& pool = *new CompilePool;  // its threads live as long as the process
    return pool;
  }
  void Run(std::function<void()> job) {
    {
      std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    ready_.notify_one();
  }

 private:
  CompilePool() {
    const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
    for (unsigned i = 0; i < threads; ++i) std::thread([this] { Loop(); }).detach();
  }
  void Loop() {
    for (;;) {
      std::function<void()> job;
      {
        std::unique_lock lock(mutex_);
        ready_.wait(lock, [this] { return !jobs_.empty(); });
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      job();
    }
  }
  std::mutex mutex_;  // guards jobs_
  std::condition_variable ready_;
  std::deque<std::function<void()>> jobs_;
};

}  // namespace

Program::Program(pjrt::Client& client, std::string text, std::vector<std::pair<int, int>> donations, std::string name)
    : donations_(std::move(donations)), name_(std::move(name)) {
  RecordText(name_, text);
  Start(client, [text = std::move(text)] { return text; });
}

Program::Program(pjrt::Client& client, std::function<std::string()> emit, std::vector<std::pair<int, int>> donations,
                 std::string name)
    : donations_(std::move(donations)), name_(std::move(name)) {
  Start(client, [emit = std::move(emit), name = name_] {
    std::string text = emit();
    RecordText(name, text);
    return text;
  });
}

void Program::Start(pjrt::Client& client, std::function<std::string()> emit) {
  using Compiled = Result<std::unique_ptr<pjrt::LoadedExecutable>>;
  auto promise = std::make_shared<std::promise<std::shared_ptr<Compiled>>>();
  compiled_ = promise->get_future().share();
  CompilePool::Get().Run([promise, client = client.shared_from_this(), emit = std::move(emit)] {
    compile_count.fetch_add(1, std::memory_order_relaxed);
    promise->set_value(std::make_shared<Compiled>(client->Compile(emit(), Options(*client))));
  });
}

bool Program::Ready() const {
  return executable_.load(std::memory_order_acquire) != nullptr ||
         compiled_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

Result<pjrt::LoadedExecutable*> Program::Executable() {
  if (pjrt::LoadedExecutable* e = executable_.load(std::memory_order_acquire)) return e;
  auto& compiled = *compiled_.get();
  if (!compiled.ok()) return compiled.status();
  executable_.store(compiled->get(), std::memory_order_release);
  return compiled->get();
}

void Program::RecordTexts(bool on) { recording.store(on, std::memory_order_relaxed); }

std::vector<Program::Text> Program::TakeTexts() {
  std::lock_guard lock(texts_mutex);
  return std::exchange(Texts(), {});
}

int64_t Program::CompileCount() { return compile_count.load(std::memory_order_relaxed); }

}  // namespace tpu::runtime
