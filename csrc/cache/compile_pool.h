// The threads that compile programs and load compiled ones.
//
// A job that cannot go on (another process is compiling its program) says so and is tried again later, so no thread
// waits while there is other work.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace tpu::cache {

class CompilePool {
 public:
  enum class Urgency {
    kNow,         // somebody waits for it, or soon will
    kBackground,  // useful later
    kIdle,        // housekeeping
  };
  enum class Outcome { kDone, kLater };
  using Job = std::function<Outcome()>;

  // The process's; its threads live as long as the process.
  static CompilePool& Get();
  // False when the process is ending: the job will not run.
  bool Run(Urgency urgency, Job job);
  // For interpreter exit, when nobody waits for a program any more: drops the jobs that have not begun, but for
  // housekeeping, and waits for the others for at most `timeout_s`. Whether all have ended.
  bool Shutdown(double timeout_s);
  // Blocks until nothing is queued or running; false after `timeout_s`.
  bool AwaitIdle(double timeout_s);

 private:
  CompilePool();
  using Clock = std::chrono::steady_clock;
  struct Delayed {
    Job job;
    Clock::time_point due;
  };
  void Loop();
  bool Take(Job* job);

  std::mutex mutex_;  // guards all below
  std::condition_variable work_, idle_;
  std::deque<Job> queues_[3];
  std::deque<Delayed> delayed_;
  int running_ = 0;
  bool closing_ = false;
};

}  // namespace tpu::cache
