#include "runtime/stream.h"

#include <algorithm>
#include <chrono>

#include "runtime/recorder.h"

namespace tpu::runtime {
namespace {

Task HostTask(std::string_view name, std::function<Status()> run) {
  Task task;
  task.run = std::move(run);
  task.name = name;
  return task;
}

bool AllDone(const std::vector<ExternalPtr>& externals) {
  return std::all_of(externals.begin(), externals.end(), [](const ExternalPtr& e) { return e->done(); });
}

void AwaitAll(const std::vector<ExternalPtr>& externals) {
  for (const ExternalPtr& external : externals) external->device().Await(*external, std::nullopt);
}

}  // namespace

namespace stream_internal {
constinit thread_local uint8_t current[kMaxDevices] = {};
constinit std::atomic<Sequence> positions[kMaxDevices][kStreamCount] = {};
}  // namespace stream_internal

StreamId NextPoolStream(int device, bool high_priority) {
  static std::atomic<uint32_t> next[kMaxDevices][2];
  const uint32_t turn = next[device][high_priority].fetch_add(1, std::memory_order_relaxed) % kStreamsPerPriority;
  return 1 + (high_priority ? kStreamsPerPriority : 0) + turn;
}

void Event::Record(Device& device, StreamId stream) {
  auto mark = std::make_shared<Mark>();
  mark->device = &device;
  Flush(device, FlushReason::kEvent);
  mark->externals = device.externals(stream).Running();
  if (timed_) {
    mark->sequence = device.Submit(HostTask("event", [mark] {
      AwaitAll(mark->externals);
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      mark->time_ns = std::chrono::nanoseconds(now).count();
      return Status();
    }));
    AdvanceStream(device.index(), stream, mark->sequence);
  } else {
    mark->sequence = StreamPosition(device.index(), stream);
  }
  mark_ = std::move(mark);
}

void Event::Block(Device& device, StreamId stream) const {
  if (!mark_) return;
  if (!AllDone(mark_->externals)) device.externals(stream).Add(mark_->externals);
  if (mark_->device == &device) {
    AdvanceStream(device.index(), stream, mark_->sequence);
  } else if (!Reached()) {
    // Marks are recorded before they are waited for, so devices cannot wait for each other in a circle.
    const Sequence sequence = device.Submit(HostTask("wait for event", [mark = mark_] {
      mark->device->Await(mark->sequence);
      return Status();
    }));
    AdvanceStream(device.index(), stream, sequence);
  }
}

bool Event::Reached() const {
  return !mark_ || (mark_->device->Completed(mark_->sequence) && AllDone(mark_->externals));
}

void Event::Await() const {
  if (!mark_) return;
  mark_->device->Await(mark_->sequence);
  AwaitAll(mark_->externals);
}

Result<double> Event::ElapsedMs(const Event& end) const {
  if (!timed_ || !end.timed_) {
    return Status(Code::kInvalidArgument, "elapsed_time: both events must be created with enable_timing=True");
  }
  if (!mark_ || !end.mark_) {
    return Status(Code::kInvalidArgument, "elapsed_time: both events must be recorded first");
  }
  if (!Reached() || !end.Reached()) {
    return Status(Code::kInvalidArgument, "elapsed_time: both events must be completed; call synchronize() first");
  }
  return static_cast<double>(end.mark_->time_ns - mark_->time_ns) / 1e6;
}

}  // namespace tpu::runtime
