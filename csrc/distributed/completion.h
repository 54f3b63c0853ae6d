// What a call's handle and the threads that carry it out share: whether all its parts are done, and how it went.
//
// Threads: any. Then's functions run once, on the thread that completes the last part, or at once when that has happened.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/external.h"

namespace tpu::distributed {

class Completion {
 public:
  Completion(runtime::Device& device, int parts);
  const runtime::ExternalPtr& external() const { return external_; }
  bool done() const { return external_->done(); }
  // Null unless it is done and has failed.
  std::shared_ptr<const Status> error() const { return external_->error(); }
  // Rank that a message came from; -1 until it is known.
  int source() const { return source_.load(std::memory_order_acquire); }
  void SetSource(int rank) { source_.store(rank, std::memory_order_release); }
  void Then(std::function<void()> function);
  // One part more; while there is one that has not ended.
  void AddPart();
  // Ends one part. The first error stays; it is no news where the program itself ended the group.
  void Finish(std::shared_ptr<const Status> error, bool news = true);

 private:
  runtime::ExternalPtr external_;
  std::atomic<int> source_{-1};
  std::mutex mutex_;  // guards all below
  int parts_;
  std::shared_ptr<const Status> error_;
  std::vector<std::function<void()>> then_;
};
using CompletionPtr = std::shared_ptr<Completion>;

}  // namespace tpu::distributed
