#include "runtime/explain.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

namespace tpu::runtime {
namespace {

std::atomic<bool> on{false};
Explain::LineHook line_hook = nullptr;  // set once at import
std::mutex mutex;                       // guards State()

struct Records {
  std::vector<FlushRecord> flushes;
  std::vector<CompileRecord> compiles;
  std::vector<std::string> lines;
  std::unordered_map<std::string, uint32_t> numbers;
};
Records& State() {
  static auto& state = *new Records;
  return state;
}

}  // namespace

const char* Name(FlushReason reason) {
  switch (reason) {
    case FlushReason::kRead: return "read";
    case FlushReason::kSynchronize: return "synchronize";
    case FlushReason::kEvent: return "event";
    case FlushReason::kCopy: return "copy";
    case FlushReason::kSize: return "size";
    case FlushReason::kMemory: return "memory";
    case FlushReason::kIdle: return "idle";
    case FlushReason::kMode: return "mode";
    case FlushReason::kSubmit: return "submit";
    case FlushReason::kCollective: return "collective";
  }
  return "";
}

void Explain::SetLineHook(LineHook hook) { line_hook = hook; }
void Explain::Enable(bool enable) { on.store(enable, std::memory_order_relaxed); }
bool Explain::enabled() { return on.load(std::memory_order_relaxed); }

uint32_t Explain::Line() {
  if (!enabled() || !line_hook) return 0;
  std::string text = line_hook();
  if (text.empty()) return 0;
  std::lock_guard lock(mutex);
  auto [it, added] = State().numbers.emplace(text, static_cast<uint32_t>(State().lines.size() + 1));
  if (added) State().lines.push_back(std::move(text));
  return it->second;
}

std::string Explain::FindLine() { return line_hook ? line_hook() : std::string(); }

std::string Explain::LineText(uint32_t line) {
  std::lock_guard lock(mutex);
  return line == 0 || line > State().lines.size() ? std::string() : State().lines[line - 1];
}

void Explain::Add(FlushRecord record) {
  std::lock_guard lock(mutex);
  State().flushes.push_back(std::move(record));
}

void Explain::Add(CompileRecord record) {
  std::lock_guard lock(mutex);
  State().compiles.push_back(std::move(record));
}

void Explain::AddWait(double wait_us) {
  std::lock_guard lock(mutex);
  if (!State().flushes.empty()) State().flushes.back().wait_us += wait_us;
}

std::vector<FlushRecord> Explain::TakeFlushes() {
  std::lock_guard lock(mutex);
  return std::exchange(State().flushes, {});
}

std::vector<CompileRecord> Explain::TakeCompiles() {
  std::lock_guard lock(mutex);
  return std::exchange(State().compiles, {});
}

}  // namespace tpu::runtime
