#include "aten/pinned_memory.h"

#include <ATen/core/CachingHostAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "aten/guard.h"
#include "runtime/stream.h"

namespace tpu::aten {
namespace {

constexpr size_t kPage = 4096;

struct Block {
  char* data = nullptr;
  size_t size_bytes = 0;
  bool locked = false;  // in RAM; best effort, since the limit for unprivileged users is small
  size_t requested_bytes = 0;
  bool allocated = false;
  std::map<runtime::Device*, runtime::Sequence> uses;  // the last copy that may still read it

  bool Idle() const {
    return std::ranges::all_of(uses, [](const auto& use) { return use.first->Completed(use.second); });
  }
};

// Freed blocks are kept for the next allocation of about their size, once the copies from them are done.
// Threads: all state is under mutex_.
class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t size_bytes) override {
    if (size_bytes == 0) return {nullptr, nullptr, &Delete, at::kCPU};
    std::lock_guard lock(mutex_);
    Block* block = Reuse(size_bytes);
    if (block == nullptr) block = Create(size_bytes);
    block->allocated = true;
    block->requested_bytes = size_bytes;
    stats_.active_requests.increase(1);
    stats_.active_bytes.increase(size_bytes);
    return {block->data, block, &Delete, at::kCPU};
  }

  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* destination, const void* source, size_t size_bytes) const override {
    std::memcpy(destination, source, size_bytes);
  }

  bool record_event(void* data, void* context, c10::Stream stream) override {
    std::lock_guard lock(mutex_);
    Block* block = Find(context != nullptr ? static_cast<Block*>(context)->data : data);
    if (block == nullptr) return false;
    const c10::DeviceIndex index = stream.device_index();
    block->uses[&DeviceAt(index)] = runtime::StreamPosition(index, stream.id());
    return true;
  }

  void empty_cache() override {
    std::lock_guard lock(mutex_);
    std::erase_if(free_, [this](const auto& entry) {
      if (!entry.second->Idle()) return false;
      Destroy(entry.second);
      return true;
    });
  }

  at::HostStats get_stats() override {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_accumulated_stats() override {
    std::lock_guard lock(mutex_);
    for (auto* stat : {&stats_.active_requests, &stats_.active_bytes, &stats_.allocations, &stats_.allocated_bytes}) {
      stat->reset_accumulated();
    }
    stats_.num_host_alloc = stats_.num_host_free = 0;
  }
  void reset_peak_stats() override {
    std::lock_guard lock(mutex_);
    for (auto* stat : {&stats_.active_requests, &stats_.active_bytes, &stats_.allocations, &stats_.allocated_bytes}) {
      stat->reset_peak();
    }
  }

  bool Contains(const void* data) {
    std::lock_guard lock(mutex_);
    const Block* block = Find(data);
    return block != nullptr && block->allocated;
  }

 private:
  static void Delete(void* context);

  void Free(Block* block) {
    std::lock_guard lock(mutex_);
    block->allocated = false;
    stats_.active_requests.decrease(1);
    stats_.active_bytes.decrease(block->requested_bytes);
    free_.emplace(block->size_bytes, block);
  }

  Block* Reuse(size_t size_bytes) {
    for (auto it = free_.lower_bound(size_bytes); it != free_.end() && it->first <= size_bytes + size_bytes / 4 + kPage;
         ++it) {
      if (!it->second->Idle()) continue;
      Block* block = it->second;
      block->uses.clear();
      free_.erase(it);
      return block;
    }
    return nullptr;
  }

  Block* Create(size_t size_bytes) {
    const size_t rounded = (size_bytes + kPage - 1) / kPage * kPage;
    void* data = nullptr;
    TORCH_CHECK_WITH(OutOfMemoryError, posix_memalign(&data, kPage, rounded) == 0, "pinned memory: could not allocate ",
                     size_bytes, " bytes of host memory");
    auto block = std::make_unique<Block>();
    block->data = static_cast<char*>(data);
    block->size_bytes = rounded;
    block->locked = mlock(data, rounded) == 0;
    stats_.allocations.increase(1);
    stats_.allocated_bytes.increase(rounded);
    stats_.num_host_alloc += 1;
    return (blocks_[block->data] = std::move(block)).get();
  }

  void Destroy(Block* block) {
    stats_.allocations.decrease(1);
    stats_.allocated_bytes.decrease(block->size_bytes);
    stats_.num_host_free += 1;
    if (block->locked) munlock(block->data, block->size_bytes);
    std::free(block->data);
    blocks_.erase(block->data);
  }

  Block* Find(const void* data) {
    auto it = blocks_.upper_bound(static_cast<const char*>(data));
    if (it == blocks_.begin()) return nullptr;
    Block* block = std::prev(it)->second.get();
    return static_cast<const char*>(data) < block->data + block->size_bytes ? block : nullptr;
  }

  std::mutex mutex_;
  std::map<const char*, std::unique_ptr<Block>> blocks_;  // by address
  std::multimap<size_t, Block*> free_;                    // by size
  at::HostStats stats_;
};

// Never destroyed: tensors may outlive static destruction.
PinnedAllocator& allocator() {
  static auto* a = new PinnedAllocator;
  return *a;
}

void PinnedAllocator::Delete(void* context) {
  if (context != nullptr) allocator().Free(static_cast<Block*>(context));
}

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, &allocator());

}  // namespace

bool IsPinned(const void* data) { return allocator().Contains(data); }

}  // namespace tpu::aten
