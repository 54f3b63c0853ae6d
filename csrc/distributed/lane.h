// A thread that does things one after another, in the order they were pushed.
//
// Threads: any may push. The destructor drops nothing: it waits for all of it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tpu::distributed {

class Lane {
 public:
  Lane();
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  void Push(std::function<void()> job);
  bool idle();
  // False when there still is something to do at the deadline.
  bool AwaitIdle(std::chrono::steady_clock::time_point deadline);

 private:
  void Loop();

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool busy_ = false, stopping_ = false;
  std::thread thread_;
};

// Runs jobs that may block for each other, each at once: on a thread that has nothing to do, or a new one. For
// callbacks of the program's. Process-wide; after Stop jobs are dropped.
class CallbackThreads {
 public:
  static void Run(std::function<void()> job);
  // For interpreter exit: none starts any more; those that run are waited for until the deadline.
  static void Stop(std::chrono::steady_clock::time_point deadline);
};

}  // namespace tpu::distributed
