// One device: its submission thread, streams' positions, and memory accounting.
//
// The recording threads only Submit; one submission thread per device compiles (through Program), executes in order, and
// makes Values ready. Submit blocks while too much is in flight (operations and bytes), which is the back-pressure.
// An error found there fails the Values concerned and is kept as the device's pending error until a synchronisation takes it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "pjrt/client.h"
#include "runtime/external.h"
#include "runtime/value.h"

namespace tpu::runtime {

class Program;
class Window;

struct MemoryStats {
  int64_t allocated_bytes = 0, peak_bytes = 0, allocations = 0, frees = 0, limit_bytes = 0;
  int64_t buffer_bytes = 0, peak_buffer_bytes = 0;  // of Values that hold device memory: what PJRT really keeps
  int64_t total_allocated_bytes = 0, total_freed_bytes = 0;
};

// A task's position in the device's order; 0 is "nothing yet".
using Sequence = uint64_t;

struct Task {
  std::shared_ptr<Program> program;  // or:
  std::function<Status()> run;       // host work in the device's order (copies, event marks); may be null
  std::vector<ValuePtr> inputs, outputs;
  std::string_view name;             // static storage: the op, for messages
  std::function<void(Status)> done;  // called on the submission thread; may be null
};

class Device {
 public:
  Device(std::shared_ptr<pjrt::Client> client, const pjrt::Device& device, int index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int index() const { return index_; }
  pjrt::Client& client() const { return *client_; }
  const pjrt::Device& pjrt_device() const { return *pjrt_device_; }
  // A pending scalar (or other small host data); equal ones share one Value.
  ValuePtr HostConstant(const TypePtr& type, std::string bytes);

  // Why nothing can run here any more: this is a forked child, or the interpreter is exiting. Cheap.
  Status CheckUsable() const;
  // Queues a task; returns its place in the order. May block for back-pressure. After Shutdown the task fails at once.
  Sequence Submit(Task task);
  // The two halves of Submit, for who holds a lock in between: waits until less is in flight; queues, and never blocks.
  void WaitForRoom();
  Sequence Enqueue(Task task);
  // What fuse mode has recorded here and not yet run.
  Window& window() const { return *window_; }
  Sequence last_submitted() const { return submitted_.load(std::memory_order_acquire); }
  bool Completed(Sequence sequence) const { return completed_.load(std::memory_order_acquire) >= sequence; }
  // Blocks until the task is done. `poll` is called about every 50 ms and may throw (Ctrl-C); the device stays usable.
  void Await(Sequence sequence);
  void AwaitValue(const Value& value);
  // Work beside the queue. `Await` blocks until it is done, or the time is over: then false.
  ExternalList& externals() { return externals_; }
  ExternalList& externals(int64_t stream) { return stream_externals_[stream]; }  // that the stream waits for
  bool Await(const External& external, std::optional<std::chrono::milliseconds> timeout);
  // Wakes who waits for a Value or an External of this device; for the thread that completed it.
  void NoteProgress();
  // Makes `error` the pending one, unless there is one.
  void NoteError(const Status& error);
  // It has been reported otherwise.
  void ForgetError(const Status& error);
  // The oldest unreported asynchronous error, which it clears.
  Status TakeError();
  // Runs what is queued and ends the thread; later tasks fail. For interpreter exit.
  void Shutdown();

  // --- memory. Throws nothing; the caller turns kResourceExhausted into torch.OutOfMemoryError.
  // Counts a new slot's bytes, or says why they are not to be had: what is in use, by which tensors.
  Status Add(Slot& slot);
  void Remove(Slot& slot);
  Status Resize(Slot& slot, size_t size_bytes);
  MemoryStats memory() const;
  // The live slot at this address, or null: for tensors that others made over data_ptr() (PyTorch's legacy format).
  Slot* FindSlot(const void* address) const;
  void ResetPeak();
  void ResetAccumulated();
  void SetLimit(int64_t bytes);
  void CountBuffer(int64_t delta_bytes);

 private:
  struct Queued {
    Task task;
    Sequence sequence;
    int64_t bytes;
  };
  void Loop();
  bool HasToWait(const Task& task) const;
  pjrt::Event Run(Task& task);
  Status RunProgram(Task& task, pjrt::Event* ready);
  Status Upload(Value& value);
  void Finish(Sequence sequence, int64_t bytes);
  void Fail(Task& task, const Status& status);
  Status Grant(int64_t size_bytes);  // under memory_mutex_
  std::string DescribeMemory() const;
  template <typename Predicate>
  void WaitUntil(const Predicate& done);

  std::shared_ptr<pjrt::Client> client_;
  const pjrt::Device* pjrt_device_;
  int index_;
  std::unique_ptr<Window> window_;
  ExternalList externals_;
  std::unique_ptr<ExternalList[]> stream_externals_;

  std::mutex mutex_;  // guards queue_, stopping_, error_
  std::condition_variable work_, progress_;
  std::deque<Queued> queue_;
  std::atomic<bool> stopping_{false};
  bool sleeping_ = false;
  std::atomic<int> waiters_{0};
  std::atomic<size_t> queued_{0};
  std::atomic<int64_t> in_flight_bytes_{0};
  std::atomic<Sequence> submitted_{0}, completed_{0};
  Status error_;

  mutable std::mutex memory_mutex_;  // guards memory_, live_ and the slots' links
  MemoryStats memory_;
  Slot* live_ = nullptr;        // the youngest; a list through all of the device's slots
  std::mutex constants_mutex_;  // guards constants_
  std::unordered_map<std::string, ValuePtr> constants_;
  std::thread thread_;
};

// Called about every 50 ms, without locks, while a thread waits for a device; may throw. The Python layer sets it to
// check for signals. `release` brackets a wait (the GIL is let go).
struct WaitHooks {
  void (*poll)() = nullptr;
  void* (*release)() = nullptr;
  void (*reacquire)(void*) = nullptr;
};
void SetWaitHooks(WaitHooks hooks);

// Lets the Python layer's lock go for the length of a wait.
class ReleaseGuard {
 public:
  ReleaseGuard();
  ~ReleaseGuard();
  ReleaseGuard(const ReleaseGuard&) = delete;
  ReleaseGuard& operator=(const ReleaseGuard&) = delete;

 private:
  void* state_;
};

}  // namespace tpu::runtime
