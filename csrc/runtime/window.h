// What fuse mode has recorded on one device and not yet run.
//
// Ops gather here until a flush: the program reads data, waits or marks the device's order, the ops themselves say that a
// program should end (cut_points.h), too much memory would be kept, or the device has long been idle. A flush looks its
// ops up as a Cluster; while there is no program for it, they run one by one, as in strict mode.
// Threads: any. The mutex is never held while waiting for the device or for Python.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/cluster.h"
#include "runtime/cut_points.h"
#include "runtime/explain.h"
#include "runtime/recording.h"

namespace tpu::runtime {

struct FuseOptions {
  CompilePolicy compile = CompilePolicy::kBackground;
  std::chrono::milliseconds idle{20};  // a device idle this long gets what there is; 0: never
};
// Process-wide.
FuseOptions GetFuseOptions();
void SetFuseOptions(FuseOptions options);

struct Task;

class Window {
 public:
  explicit Window(Device& device) : device_(device) {}

  void Add(const OpPtr& op, std::vector<ValuePtr> inputs, const std::vector<ValuePtr>& outputs);
  // Submits everything recorded so far. May block for back-pressure.
  void Flush(FlushReason reason);
  bool empty() const { return empty_.load(std::memory_order_relaxed); }
  // Is the value the result of an op that is still here?
  bool Has(Value& value);
  // As Flush, where nothing has been added for a while; for the submission thread, which it never blocks.
  void FlushIdle();

 private:
  void Locked(FlushReason reason, uint32_t line);
  void Cut(size_t count, uint32_t line);
  // `rest`: the recording that comes after it, whose inputs it has to give.
  void Run(Recording& recording, FlushReason reason, uint32_t line, uint64_t rest);
  void RunFused(Recording& recording, Cluster::Variant& variant);
  void RunOneByOne(Recording& recording);
  // Does a program end right before the op, which comes next?
  bool IsBoundary(const Op& op);
  Cluster& Find(const Recording& recording);
  void Submit(Task task);

  Device& device_;
  std::atomic<bool> empty_{true};
  std::mutex mutex_;  // guards all below, and the places of this device's Values
  Recording recording_;
  CutPoints cut_points_;
  enum class Update : uint8_t { kNone, kSmall, kLarge };
  Update update_ = Update::kNone;  // of many tensors, under way
  size_t position_ = 0;            // ops before recording_ since cut_points_ was reset
  std::vector<int64_t> streams_;   // that recording_'s ops were recorded on
  std::chrono::steady_clock::time_point last_added_;
  std::unordered_multimap<uint64_t, std::unique_ptr<Cluster>> clusters_;
};

}  // namespace tpu::runtime
