// Work beside a device's queue: a collective, which its own threads carry out, and whose results are Values of the device.
//
// The queue does not wait for it, but for the Values that a task takes. A stream that was told to wait for it, and events
// recorded there, are complete only when it is; synchronising the device waits for all of it.
// Threads: any.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"

namespace tpu::runtime {

class Device;

class External {
 public:
  explicit External(Device& device) : device_(&device) {}
  Device& device() const { return *device_; }
  bool done() const { return done_.load(std::memory_order_acquire); }
  // Null while it runs and where it succeeded.
  std::shared_ptr<const Status> error() const { return done() ? error_ : nullptr; }
  // Exactly once, after its Values were fulfilled or failed. An error becomes the device's pending one, if it is news.
  void Finish(std::shared_ptr<const Status> error, bool news = true);

 private:
  Device* device_;
  std::shared_ptr<const Status> error_;
  std::atomic<bool> done_{false};
};
using ExternalPtr = std::shared_ptr<External>;

// Those that are under way: what was added and is not done.
class ExternalList {
 public:
  void Add(ExternalPtr external);
  void Add(const std::vector<ExternalPtr>& externals);
  std::vector<ExternalPtr> Running();
  bool empty() const { return count_.load(std::memory_order_acquire) == 0; }

 private:
  std::mutex mutex_;  // guards externals_
  std::vector<ExternalPtr> externals_;
  std::atomic<size_t> count_{0};
};

}  // namespace tpu::runtime
