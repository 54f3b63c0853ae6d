// PyTorch's allocator contract. A storage's memory is a slot; the figures come from the device.
#include "aten/allocator.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <torch/library.h>
#include <unistd.h>

#include <algorithm>

#include "aten/errors.h"
#include "aten/guard.h"
#include "aten/tensor.h"
#include "runtime/platform.h"

namespace tpu::aten {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatType;

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t size_bytes) override { return MakeSlot(DeviceAt(-1), size_bytes); }
  // raw_deleter keeps its default, null: a slot's address is not its context.

  void copy_data(void*, const void*, size_t) const override {
    TORCH_CHECK_NOT_IMPLEMENTED(false,
                                "tpu: expected a copy between tensors, found one between raw pointers. The memory "
                                "of a tpu has no addresses.");
  }

  bool initialized() override { return runtime::Platform::Opened() != nullptr; }
  // Nothing is cached: a value's memory goes back to the plugin with its last reference.
  void emptyCache(c10::MempoolId_t) override {}
  // The device's queue is in order whatever the stream, so memory cannot be reused before its last use.
  void recordStream(const c10::DataPtr&, c10::Stream) override {}

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const runtime::MemoryStats memory = DeviceAt(index).memory();
    constexpr auto kAll = static_cast<size_t>(StatType::AGGREGATE);
    c10::CachingDeviceAllocator::DeviceStats stats;
    const Stat bytes{memory.allocated_bytes, memory.peak_bytes, memory.total_allocated_bytes, memory.total_freed_bytes};
    stats.allocated_bytes[kAll] = stats.active_bytes[kAll] = stats.requested_bytes[kAll] = bytes;
    stats.reserved_bytes[kAll].current = memory.buffer_bytes;
    stats.reserved_bytes[kAll].peak = memory.peak_buffer_bytes;
    stats.allocation[kAll].allocated = memory.allocations;
    stats.allocation[kAll].freed = memory.frees;
    stats.num_ooms = OutOfMemoryCount();
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override { DeviceAt(index).ResetAccumulated(); }
  void resetPeakStats(c10::DeviceIndex index) override { DeviceAt(index).ResetPeak(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    return FreeAndTotalMemory(DeviceAt(index));
  }
};

void RecordStream(at::Tensor& tensor, c10::Stream stream) {
  TORCH_CHECK(tensor.device() == stream.device(), "record_stream: expected a stream of ", tensor.device(),
              ", found one of ", stream.device());
  // Allocator::recordStream says why nothing is left to do.
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("record_stream", &RecordStream); }

Allocator allocator;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &allocator);

}  // namespace

int64_t TotalMemory(const runtime::Device& device) {
  if (!device.client().is_cpu()) {
    if (auto stats = device.pjrt_device().memory_stats(); stats.ok() && stats->bytes_limit) return *stats->bytes_limit;
  }
  return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
}

std::pair<int64_t, int64_t> FreeAndTotalMemory(const runtime::Device& device) {
  const int64_t total = TotalMemory(device);
  const runtime::MemoryStats memory = device.memory();
  const int64_t in_use = std::max(memory.allocated_bytes, memory.buffer_bytes);
  return {std::max<int64_t>(0, std::min(total, memory.limit_bytes) - in_use), total};
}

}  // namespace tpu::aten
