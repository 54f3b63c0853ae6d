// The completion of asynchronous work.
//
// Ownership: move-only, owns its PJRT_Event; independent of the life of the client and buffers it came from. An empty
// event (default-constructed or moved-from) counts as complete and successful.
// Threads: const methods may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"

struct PJRT_Event;

namespace tpu::pjrt {

class Plugin;

class Event {
 public:
  Event() = default;
  // Takes ownership of `event`.
  Event(const Plugin* plugin, PJRT_Event* event);
  // An event that has completed with `error`.
  static Event Failed(Status error);
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  // Blocks until the work is done; its error, if it failed.
  Status Await() const;
  // Never blocks. True also when the work failed. An error of the query itself counts as ready: Await will tell.
  bool IsReady() const;
  // Calls `callback` exactly once, with the work's status: inline if the event is already complete (or registration
  // fails), otherwise from a thread of the plugin. The callback must not block, throw, or drop the last
  // reference to a Client; the event may be destroyed before it runs.
  void OnReady(std::function<void(Status)> callback) const;

  // Events alive in the process (empty ones not counted).
  static int64_t LiveCount();

 private:
  const Plugin* plugin_ = nullptr;
  PJRT_Event* event_ = nullptr;
  std::unique_ptr<const Status> failure_;  // set by Failed only
};

}  // namespace tpu::pjrt
