#include "cache/notice.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>

namespace tpu::cache {
namespace {

std::atomic<void (*)(const std::string&)> notice_hook{nullptr};

bool First(const char* kind) {
  static auto& mutex = *new std::mutex;  // guards seen; both live for threads that outlive static destruction
  static auto& seen = *new std::set<std::string>;
  std::lock_guard lock(mutex);
  return seen.insert(kind).second;
}

}  // namespace

void Notice(const char* kind, const std::string& message) {
  if (!First(kind)) return;
  const std::string text = "TorchTPU's compile cache: " + message;
  if (auto hook = notice_hook.load()) {
    hook(text);
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
}

void SetNoticeHook(void (*hook)(const std::string&)) { notice_hook.store(hook); }

}  // namespace tpu::cache
