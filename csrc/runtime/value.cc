#include "runtime/value.h"

#include <utility>

#include "runtime/device.h"
#include "runtime/padding.h"
#include "runtime/platform.h"

namespace tpu::runtime {
namespace {

// Addresses are handed out once and never dereferenced; a gap between storages keeps offset arithmetic of different
// tensors apart.
void* NextAddress(size_t size_bytes) {
  constexpr uint64_t kBase = uint64_t{1} << 46, kAlign = 512;
  static std::atomic<uint64_t> next{kBase};
  const uint64_t size = (size_bytes + 2 * kAlign - 1) / kAlign * kAlign;
  return reinterpret_cast<void*>(next.fetch_add(size, std::memory_order_relaxed));
}

class SpinGuard {
 public:
  explicit SpinGuard(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~SpinGuard() { flag_.clear(std::memory_order_release); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  std::atomic_flag& flag_;
};

}  // namespace

Value::Value(Device& device, TypePtr type, pjrt::Buffer buffer) : Value(device, std::move(type)) {
  Fulfil(std::move(buffer));
}

Value::~Value() {
  if (state_.load(std::memory_order_acquire) != State::kReady) return;
  if (Platform::InForkedChild()) {
    // The plugin's threads do not exist here; its memory goes with the process.
    [[maybe_unused]] auto* leaked = new pjrt::Buffer(std::move(buffer_));
    return;
  }
  device_->CountBuffer(-counted_bytes_);
}

void Value::Fulfil(pjrt::Buffer buffer) {
  buffer_ = std::move(buffer);
  counted_bytes_ = static_cast<int64_t>(buffer_.dense_size_bytes());
  device_->CountBuffer(counted_bytes_);
  state_.store(State::kReady, std::memory_order_release);
}

void Value::GiveMemory() { device_->CountBuffer(-std::exchange(counted_bytes_, 0)); }

void Value::Fail(std::shared_ptr<const Status> error) {
  error_ = std::move(error);
  state_.store(State::kFailed, std::memory_order_release);
}

Slot::Slot(Device& device, size_t size_bytes)
    : device_(&device), address_(NextAddress(size_bytes)), size_bytes_(size_bytes) {}

Result<std::unique_ptr<Slot>> Slot::Create(Device& device, size_t size_bytes) {
  auto slot = std::unique_ptr<Slot>(new Slot(device, size_bytes));
  TPU_RETURN_IF_ERROR(device.Add(*slot));
  return slot;
}

Slot::~Slot() {
  Replace(nullptr, nullptr);
  device_->Remove(*this);
}

Status Slot::Resize(size_t size_bytes) { return device_->Resize(*this, size_bytes); }

ValuePtr Slot::Get() const {
  std::shared_ptr<const Padded> padded;
  {
    SpinGuard guard(lock_);
    if (value_ || !padded_) return value_;
    padded = padded_;
  }
  ValuePtr cut = Cut(*padded);
  SpinGuard guard(lock_);
  if (padded_ != padded || value_) return value_ ? value_ : cut;
  cut->Hold();
  value_ = cut;
  return cut;
}

ValuePtr Slot::Peek() const {
  SpinGuard guard(lock_);
  return value_;
}

std::shared_ptr<const Padded> Slot::padded() const {
  SpinGuard guard(lock_);
  return padded_;
}

void Slot::Replace(ValuePtr value, std::shared_ptr<const Padded> padded) {
  if (value) value->Hold();
  if (padded) padded->whole->Hold();
  {
    SpinGuard guard(lock_);
    value_.swap(value);
    padded_.swap(padded);
  }
  if (value) value->LetGo();
  if (padded) padded->whole->LetGo();
}

void Slot::Set(ValuePtr value) { Replace(std::move(value), nullptr); }

void Slot::SetPadded(Padded padded) { Replace(nullptr, std::make_shared<const Padded>(std::move(padded))); }

void Slot::AddPadded(Padded padded) { Replace(Peek(), std::make_shared<const Padded>(std::move(padded))); }

}  // namespace tpu::runtime
