#include "pjrt/event.h"

#include <atomic>
#include <utility>

#include "pjrt/call.h"

namespace tpu::pjrt {
namespace {

std::atomic<int64_t> live{0};

struct Pending {
  const Plugin* plugin;
  std::function<void(Status)> callback;
};

void RunCallback(PJRT_Error* error, void* user_arg) {
  std::unique_ptr<Pending> pending(static_cast<Pending*>(user_arg));
  pending->callback(TakeError(pending->plugin->api(), "PJRT_Event_OnReady", error));
}

}  // namespace

Event::Event(const Plugin* plugin, PJRT_Event* event) : plugin_(plugin), event_(event) {
  if (event_ != nullptr) live.fetch_add(1, std::memory_order_relaxed);
}

Event Event::Failed(Status error) {
  Event event;
  event.failure_ = std::make_unique<const Status>(std::move(error));
  return event;
}

Event::Event(Event&& other) noexcept
    : plugin_(other.plugin_), event_(std::exchange(other.event_, nullptr)), failure_(std::move(other.failure_)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(plugin_, other.plugin_);
  std::swap(event_, other.event_);
  std::swap(failure_, other.failure_);
  const Event held(std::move(other));  // frees what this event held
  return *this;
}

Event::~Event() {
  if (event_ == nullptr) return;
  PJRT_Event_Destroy_Args args{};
  args.event = event_;
  (void)TPU_PJRT_CALL(*plugin_, PJRT_Event_Destroy, args);
  live.fetch_sub(1, std::memory_order_relaxed);
}

Status Event::Await() const {
  if (failure_ != nullptr) return *failure_;
  if (event_ == nullptr) return Status();
  PJRT_Event_Await_Args args{};
  args.event = event_;
  return TPU_PJRT_CALL(*plugin_, PJRT_Event_Await, args);
}

bool Event::IsReady() const {
  if (event_ == nullptr) return true;
  PJRT_Event_IsReady_Args args{};
  args.event = event_;
  return !TPU_PJRT_CALL(*plugin_, PJRT_Event_IsReady, args).ok() || args.is_ready;
}

void Event::OnReady(std::function<void(Status)> callback) const {
  if (event_ == nullptr) return callback(failure_ != nullptr ? *failure_ : Status());
  auto pending = std::make_unique<Pending>(Pending{plugin_, std::move(callback)});
  PJRT_Event_OnReady_Args args{};
  args.event = event_;
  args.callback = RunCallback;
  args.user_arg = pending.get();
  Status registered = TPU_PJRT_CALL(*plugin_, PJRT_Event_OnReady, args);
  if (registered.ok()) {
    (void)pending.release();  // RunCallback owns it, and may have freed it by now
  } else {
    pending->callback(std::move(registered));
  }
}

int64_t Event::LiveCount() { return live.load(std::memory_order_relaxed); }

}  // namespace tpu::pjrt
