#include "cache/compile_pool.h"

#include <algorithm>
#include <iterator>
#include <thread>

namespace tpu::cache {

namespace {
constexpr std::chrono::milliseconds kRetry{3};
}

CompilePool& CompilePool::Get() {
  static auto& pool = *new CompilePool;
  return pool;
}

// Several compilations at once: the recording thread of a training step meets dozens of new ops in a row.
CompilePool::CompilePool() {
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  for (unsigned i = 0; i < threads; ++i) std::thread([this] { Loop(); }).detach();
}

bool CompilePool::Run(Urgency urgency, Job job) {
  {
    std::lock_guard lock(mutex_);
    if (closing_) return false;
    queues_[static_cast<int>(urgency)].push_back(std::move(job));
  }
  work_.notify_one();
  return true;
}

bool CompilePool::Take(Job* job) {
  if (!delayed_.empty() && delayed_.front().due <= Clock::now()) {
    *job = std::move(delayed_.front().job);
    delayed_.pop_front();
    return true;
  }
  for (auto& queue : queues_) {
    if (queue.empty()) continue;
    *job = std::move(queue.front());
    queue.pop_front();
    return true;
  }
  return false;
}

void CompilePool::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Job job;
    while (!Take(&job)) {
      if (delayed_.empty()) {
        work_.wait(lock);
      } else {
        const Clock::time_point due = delayed_.front().due;  // another thread may take it while this one waits
        work_.wait_until(lock, due);
      }
    }
    ++running_;
    lock.unlock();
    const Outcome outcome = job();
    if (outcome == Outcome::kDone) job = nullptr;  // what it held dies outside the lock
    lock.lock();
    if (outcome == Outcome::kLater && !closing_) delayed_.push_back({std::move(job), Clock::now() + kRetry});
    if (--running_ == 0) idle_.notify_all();
  }
}

bool CompilePool::Shutdown(double timeout_s) {
  std::deque<Job> now, background;  // die outside the lock
  std::deque<Delayed> delayed;
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    now.swap(queues_[static_cast<int>(Urgency::kNow)]);
    background.swap(queues_[static_cast<int>(Urgency::kBackground)]);
    delayed.swap(delayed_);
  }
  return AwaitIdle(timeout_s);
}

bool CompilePool::AwaitIdle(double timeout_s) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, std::chrono::duration<double>(timeout_s), [this] {
    return running_ == 0 && delayed_.empty() &&
           std::all_of(std::begin(queues_), std::end(queues_), [](const auto& queue) { return queue.empty(); });
  });
}

}  // namespace tpu::cache
