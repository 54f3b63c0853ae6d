// Streams and events.
//
// A device has one in-order queue, which serves all its streams, so work on two streams never overlaps and a wait between
// streams of one device costs nothing. A stream is the position of the last task submitted while it was current: enough
// for query and synchronize to mean what they mean elsewhere, with the collectives that were waited for on it. Stream 0 is
// the default; the others come from a pool per priority and are handed out round robin.
// Threads: the current stream is the thread's own, per device; positions are atomic.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "runtime/device.h"

namespace tpu::runtime {

using StreamId = int64_t;

constexpr int kMaxDevices = 128;  // c10::DeviceIndex is an int8
constexpr int kStreamsPerPriority = 32;
constexpr StreamId kDefaultStream = 0;
constexpr StreamId kStreamCount = 1 + 2 * kStreamsPerPriority;

namespace stream_internal {
extern constinit thread_local uint8_t current[kMaxDevices];
extern constinit std::atomic<Sequence> positions[kMaxDevices][kStreamCount];
}  // namespace stream_internal

inline bool IsStream(StreamId stream) { return stream >= 0 && stream < kStreamCount; }
// 0, or -1 for high priority. The queue is in order whatever the priority.
inline int StreamPriority(StreamId stream) { return stream > kStreamsPerPriority ? -1 : 0; }
StreamId NextPoolStream(int device, bool high_priority);

inline StreamId CurrentStream(int device) { return stream_internal::current[device]; }
// Returns the stream that was current. `stream` must be one (IsStream).
inline StreamId ExchangeCurrentStream(int device, StreamId stream) {
  StreamId previous = stream_internal::current[device];
  stream_internal::current[device] = static_cast<uint8_t>(stream);
  return previous;
}

inline Sequence StreamPosition(int device, StreamId stream) {
  return stream_internal::positions[device][stream].load(std::memory_order_acquire);
}
// Moves the stream's position up to `sequence`; never down.
inline void AdvanceStream(int device, StreamId stream, Sequence sequence) {
  auto& position = stream_internal::positions[device][stream];
  Sequence old = position.load(std::memory_order_relaxed);
  while (old < sequence &&
         !position.compare_exchange_weak(old, sequence, std::memory_order_release, std::memory_order_relaxed)) {
  }
}
// To be called after each Submit made for the calling thread's program.
inline void NoteSubmitted(const Device& device, Sequence sequence) {
  AdvanceStream(device.index(), CurrentStream(device.index()), sequence);
}

// A mark in a device's order. Never recorded, it counts as reached.
// Threads: as in PyTorch, one thread at a time records an event; any may query or await it.
class Event {
 public:
  explicit Event(bool timed) : timed_(timed) {}
  bool timed() const { return timed_; }
  bool recorded() const { return mark_ != nullptr; }
  int device_index() const { return mark_ ? mark_->device->index() : -1; }

  // Marks all work submitted to `stream` so far.
  void Record(Device& device, StreamId stream);
  // Work submitted to `stream` from now on starts after the mark, also when the mark is another device's.
  void Block(Device& device, StreamId stream) const;
  bool Reached() const;
  void Await() const;
  // Milliseconds from this mark to `end`; both must be timed and reached.
  Result<double> ElapsedMs(const Event& end) const;

 private:
  struct Mark {
    Device* device;
    Sequence sequence = 0;
    std::vector<ExternalPtr> externals;
    std::atomic<int64_t> time_ns{0};  // steady clock; 0 until reached, or untimed
  };
  bool timed_;
  std::shared_ptr<Mark> mark_;
};

}  // namespace tpu::runtime
