// Values: immutable arrays, pending or ready. Slots: what a device storage owns.
//
// A Value is shared by the slots, recorded nodes and queued tasks that refer to it (intrusive reference count; the last
// one frees the device memory). It is made pending by the recording thread and made ready, or failed, exactly once: by the
// submission thread of its device, or by the thread of a collective. A Slot points at its current Value; an in-place op
// swaps in a new one.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "hlo/builder.h"
#include "pjrt/buffer.h"

namespace tpu::runtime {

class Device;
using hlo::Ints;
using hlo::Type;
using TypePtr = std::shared_ptr<const Type>;

class Value : public c10::intrusive_ptr_target {
 public:
  // Pending; the submission thread will call Fulfil or Fail.
  Value(Device& device, TypePtr type) : device_(&device), type_(std::move(type)) {}
  // Host bytes (row-major), copied to the device by the submission thread when first used: scalars and other small data.
  Value(Device& device, TypePtr type, std::string host_bytes)
      : device_(&device), type_(std::move(type)), host_bytes_(std::move(host_bytes)) {}
  // Ready at once.
  Value(Device& device, TypePtr type, pjrt::Buffer buffer);
  // Pending; a thread of somebody else's, not the device's, will call Fulfil or Fail (external.h).
  enum class ByOthers { kYes };
  Value(Device& device, TypePtr type, ByOthers) : device_(&device), type_(std::move(type)), by_others_(true) {}
  ~Value() override;

  Device& device() const { return *device_; }
  const Type& type() const { return *type_; }
  const TypePtr& type_ptr() const { return type_; }
  bool ready() const { return state_.load(std::memory_order_acquire) != State::kPending; }
  // Not to be had from the device's own queue, which has to wait for it.
  bool by_others() const { return by_others_; }
  // Contents known at record time; empty when they are not.
  const std::string& host_bytes() const { return host_bytes_; }

  // Slots that point here, and results that are on their way into one. While there are none, no program has to compute it.
  void Hold() { holds_.fetch_add(1, std::memory_order_relaxed); }
  void LetGo() { holds_.fetch_sub(1, std::memory_order_acq_rel); }
  bool held() const { return holds_.load(std::memory_order_acquire) > 0; }

  // Its place in the recording that last met it (recording.h); guarded by the window's mutex.
  struct Place {
    uint64_t recording = 0;
    uint32_t index = 0;
    bool produced = false;  // there, or taken from before
  };
  Place& place() { return place_; }

  // --- submission thread, or any thread once ready()
  void Fulfil(pjrt::Buffer buffer);
  void Fail(std::shared_ptr<const Status> error);
  // A program has taken the memory over for one of its results.
  void GiveMemory();
  // Null when the value failed (see error()) or is still pending.
  pjrt::Buffer* buffer() { return state_.load(std::memory_order_acquire) == State::kReady ? &buffer_ : nullptr; }
  const std::shared_ptr<const Status>& error() const { return error_; }

 private:
  enum class State : uint8_t { kPending, kReady, kFailed };
  Device* device_;
  TypePtr type_;
  bool by_others_ = false;
  std::string host_bytes_;
  pjrt::Buffer buffer_;
  int64_t counted_bytes_ = 0;
  std::shared_ptr<const Status> error_;
  std::atomic<State> state_{State::kPending};
  std::atomic<int32_t> holds_{0};
  Place place_;
};
using ValuePtr = c10::intrusive_ptr<Value>;

// An array inside a larger one: its elements, row-major, are those of the box at the larger one's origin.
struct Padded {
  ValuePtr whole;
  Ints box;      // as many dimensions as `whole` has
  TypePtr type;  // of the array itself
};

// The memory of one device at::Storage. Without a Value its contents are undefined (torch.empty) and cost nothing.
// Threads: Get and Set are atomic; ordering between threads is the user's business, as for any tensor.
class Slot {
 public:
  // Fails when the device has not the memory.
  static Result<std::unique_ptr<Slot>> Create(Device& device, size_t size_bytes);
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  Device& device() const { return *device_; }
  // A unique, never dereferenced address: what data_ptr() shows.
  void* address() const { return address_; }
  size_t size_bytes() const { return size_bytes_; }
  // Its bytes count as the device's memory; those of a slot made under a Capture do not.
  bool counted() const { return counted_; }
  Status Resize(size_t size_bytes);
  // What a graph left padded is cut to size at its first use.
  ValuePtr Get() const;
  void Set(ValuePtr value);
  // As Set, to a padded Value; nothing is cut yet.
  void SetPadded(Padded padded);
  // The same contents padded, beside what it holds.
  void AddPadded(Padded padded);
  std::shared_ptr<const Padded> padded() const;
  // Get that cuts nothing: null for what is only there padded.
  ValuePtr Peek() const;

 private:
  friend class Device;
  Slot(Device& device, size_t size_bytes);

  Device* device_;
  void* address_;
  size_t size_bytes_;
  // The device's list of live slots; its memory mutex guards them.
  Slot *previous_ = nullptr, *next_ = nullptr;
  bool counted_ = false;
  void Replace(ValuePtr value, std::shared_ptr<const Padded> padded);

  mutable std::atomic_flag lock_ = ATOMIC_FLAG_INIT;  // guards value_ and padded_
  mutable ValuePtr value_;                            // held
  std::shared_ptr<const Padded> padded_;              // the same contents; `whole` is held
};

}  // namespace tpu::runtime
