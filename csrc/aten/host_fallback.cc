#include "aten/host_fallback.h"

#include <ATen/native/CPUFallback.h>

#include <cstdlib>
#include <mutex>

#include "runtime/recorder.h"

namespace tpu::aten {
namespace {

std::mutex counts_mutex;  // guards counts
std::map<std::string, int64_t>& Counts() {
  static auto& counts = *new std::map<std::string, int64_t>;
  return counts;
}

bool FallbackIsError() {
  const char* setting = std::getenv("TORCHTPU_FALLBACK");
  return setting && std::string(setting) == "error";
}

}  // namespace

void HostFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::string name = c10::toString(op.operator_name());
  TORCH_CHECK_NOT_IMPLEMENTED(!runtime::Capture::Current(), name,
                              ": expected an op with a lowering inside a captured function, found none.");
  TORCH_CHECK_NOT_IMPLEMENTED(!FallbackIsError(), name,
                              ": expected an op that runs on tpu, found no lowering and no decomposition "
                              "(TORCHTPU_FALLBACK=error forbids the host). "
                              "Unset TORCHTPU_FALLBACK to let it run on the host CPU.");
  int64_t count;
  {
    std::lock_guard lock(counts_mutex);
    count = ++Counts()[name];
  }
  if (count == 1) {
    TORCH_WARN("tpu: ", name,
               " has no lowering and no decomposition: it runs on the host CPU, which is slow. torchtpu.fallbacks() "
               "counts such calls.");
  }
  at::native::cpu_fallback(op, stack, /*error_on_views=*/false);
}

std::map<std::string, int64_t> FallbackCounts() {
  std::lock_guard lock(counts_mutex);
  return Counts();
}

void ResetFallbackCounts() {
  std::lock_guard lock(counts_mutex);
  Counts().clear();
}

}  // namespace tpu::aten
