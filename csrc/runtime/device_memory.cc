// A device's memory: every slot is counted before it exists, so that a program that asks for too much is told at once.
#include <algorithm>
#include <iomanip>
#include <sstream>

#include "runtime/device.h"
#include "runtime/platform.h"
#include "runtime/recorder.h"

namespace tpu::runtime {
namespace {

constexpr size_t kNamed = 5;  // of the live tensors, in an out-of-memory message

std::string Bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double amount = static_cast<double>(bytes);
  size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < std::size(kUnits); ++unit) amount /= 1024;
  std::ostringstream text;
  text << std::fixed << std::setprecision(unit == 0 || amount == static_cast<int64_t>(amount) ? 0 : 2) << amount << " "
       << kUnits[unit];
  return text.str();
}

std::string Describe(const Type& type) {
  std::string text = std::string(Name(type.dtype)) + "[";
  for (size_t i = 0; i < type.dims.size(); ++i) text += (i ? ", " : "") + std::to_string(type.dims[i]);
  return text + "]";
}

}  // namespace

Status Device::Grant(int64_t size_bytes) {
  if (size_bytes > memory_.limit_bytes - memory_.allocated_bytes) {
    return {Code::kResourceExhausted,
            "TPU out of memory. Tried to allocate " + Bytes(size_bytes) + " on tpu:" + std::to_string(index_)};
  }
  memory_.allocated_bytes += size_bytes;
  memory_.total_allocated_bytes += size_bytes;
  memory_.allocations += 1;
  memory_.peak_bytes = std::max(memory_.peak_bytes, memory_.allocated_bytes);
  return {};
}

Status Device::Add(Slot& slot) {
  TPU_RETURN_IF_ERROR(CheckUsable());
  if (Capture::Current()) return {};  // what is made there is never computed on its own
  Status status;
  {
    std::lock_guard lock(memory_mutex_);
    status = Grant(static_cast<int64_t>(slot.size_bytes_));
    if (status.ok()) {
      slot.next_ = live_;
      if (live_) live_->previous_ = &slot;
      live_ = &slot;
      slot.counted_ = true;
      return status;
    }
  }
  return {status.code(), status.message() + ". " + DescribeMemory()};
}

void Device::Remove(Slot& slot) {
  if (!slot.counted_ || Platform::InForkedChild()) return;  // another thread may have held the mutex at the fork
  std::lock_guard lock(memory_mutex_);
  (slot.previous_ ? slot.previous_->next_ : live_) = slot.next_;
  if (slot.next_) slot.next_->previous_ = slot.previous_;
  memory_.allocated_bytes -= static_cast<int64_t>(slot.size_bytes_);
  memory_.total_freed_bytes += static_cast<int64_t>(slot.size_bytes_);
  memory_.frees += 1;
}

Status Device::Resize(Slot& slot, size_t size_bytes) {
  TPU_RETURN_IF_ERROR(CheckUsable());
  const int64_t growth = static_cast<int64_t>(size_bytes) - static_cast<int64_t>(slot.size_bytes_);
  Status status;
  {
    std::lock_guard lock(memory_mutex_);
    if (!slot.counted_) {
      slot.size_bytes_ = size_bytes;
      return status;
    }
    if (growth > 0) {
      status = Grant(growth);
    } else {
      memory_.allocated_bytes += growth;
      memory_.total_freed_bytes -= growth;
      memory_.frees += 1;
    }
    if (status.ok()) {
      slot.size_bytes_ = size_bytes;
      return status;
    }
  }
  return {status.code(), status.message() + ". " + DescribeMemory()};
}

Slot* Device::FindSlot(const void* address) const {
  std::lock_guard lock(memory_mutex_);
  Slot* slot = live_;
  while (slot && slot->address() != address) slot = slot->next_;
  return slot;
}

// "1 GiB of 2 GiB are in use. The largest live tensors: 512 MiB f32[2048, 65536], ... and 9 more."
std::string Device::DescribeMemory() const {
  struct Named {
    const Slot* slot;
    size_t size_bytes;
    ValuePtr value;
  };
  std::vector<Named> largest;  // let go of after the mutex: a last reference to a Value takes it
  MemoryStats memory;
  size_t count = 0;
  {
    std::lock_guard lock(memory_mutex_);
    memory = memory_;
    const auto larger = [](const Named& a, const Named& b) { return a.size_bytes > b.size_bytes; };
    for (const Slot* slot = live_; slot; slot = slot->next_) {
      if (slot->size_bytes_ == 0) continue;
      ++count;
      if (largest.size() == kNamed && slot->size_bytes_ <= largest.back().size_bytes) continue;
      const Named named{slot, slot->size_bytes_, nullptr};
      largest.insert(std::upper_bound(largest.begin(), largest.end(), named, larger), named);
      if (largest.size() > kNamed) largest.pop_back();
    }
    for (Named& named : largest) named.value = named.slot->Peek();
  }
  std::string text = Bytes(memory.allocated_bytes) + " of " + Bytes(memory.limit_bytes) + " are in use";
  for (size_t i = 0; i < largest.size(); ++i) {
    const Named& named = largest[i];
    text += (i == 0 ? ". The largest live tensors: " : ", ") + Bytes(static_cast<int64_t>(named.size_bytes)) + " " +
            (named.value ? Describe(named.value->type()) : std::string("not yet written"));
  }
  if (count > largest.size()) text += " and " + std::to_string(count - largest.size()) + " more";
  return text + ".";
}

void Device::CountBuffer(int64_t delta_bytes) {
  std::lock_guard lock(memory_mutex_);
  memory_.buffer_bytes += delta_bytes;
  memory_.peak_buffer_bytes = std::max(memory_.peak_buffer_bytes, memory_.buffer_bytes);
}

MemoryStats Device::memory() const {
  std::lock_guard lock(memory_mutex_);
  return memory_;
}

void Device::ResetPeak() {
  std::lock_guard lock(memory_mutex_);
  memory_.peak_bytes = memory_.allocated_bytes;
  memory_.peak_buffer_bytes = memory_.buffer_bytes;
}

void Device::ResetAccumulated() {
  std::lock_guard lock(memory_mutex_);
  memory_.allocations = memory_.frees = memory_.total_allocated_bytes = memory_.total_freed_bytes = 0;
}

void Device::SetLimit(int64_t bytes) {
  std::lock_guard lock(memory_mutex_);
  memory_.limit_bytes = bytes;
}

}  // namespace tpu::runtime
