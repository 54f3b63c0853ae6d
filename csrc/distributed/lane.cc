#include "distributed/lane.h"

#include <memory>
#include <utility>
#include <vector>

namespace tpu::distributed {
namespace {

std::mutex callback_mutex;  // guards callback_lanes and callbacks_stopped
std::vector<std::unique_ptr<Lane>>& callback_lanes = *new std::vector<std::unique_ptr<Lane>>;
bool callbacks_stopped = false;

}  // namespace

Lane::Lane() : thread_([this] { Loop(); }) {}

Lane::~Lane() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Lane::Push(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

bool Lane::idle() {
  std::lock_guard lock(mutex_);
  return !busy_ && jobs_.empty();
}

bool Lane::AwaitIdle(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return !busy_ && jobs_.empty(); });
}

void Lane::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
    busy_ = false;
    if (jobs_.empty()) changed_.notify_all();
  }
}

void CallbackThreads::Run(std::function<void()> job) {
  std::lock_guard lock(callback_mutex);
  if (callbacks_stopped) return;
  for (const auto& lane : callback_lanes) {
    if (lane->idle()) return lane->Push(std::move(job));
  }
  callback_lanes.push_back(std::make_unique<Lane>());
  callback_lanes.back()->Push(std::move(job));
}

void CallbackThreads::Stop(std::chrono::steady_clock::time_point deadline) {
  std::lock_guard lock(callback_mutex);
  callbacks_stopped = true;
  for (const auto& lane : callback_lanes) lane->AwaitIdle(deadline);
}

}  // namespace tpu::distributed
