// Messages between the processes of a group: host memory, matched by (peer, tag) in the order they were posted.
//
// Carried by any c10d::Backend that sends and receives CPU tensors: Gloo. After a message fails, the transport is broken:
// Gloo then ends all others too.
// Threads: any may send and receive; a Message is waited for by one thread.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "distributed/host_array.h"

namespace tpu::distributed {

using Clock = std::chrono::steady_clock;

class Transport;

// A message under way; the memory must stay until it has been waited for. Destroying it unwaited gives it up.
class Message {
 public:
  Message() = default;
  Message(Transport* transport, c10::intrusive_ptr<c10d::Work> work);
  Message(Message&& other) noexcept;
  Message& operator=(Message&& other) noexcept;
  ~Message();
  // kDeadlineExceeded when it did not come about in time, kUnavailable when the connection ended.
  Status Await(Clock::time_point deadline);
  int source() const { return work_->sourceRank(); }

 private:
  Transport* transport_ = nullptr;
  c10::intrusive_ptr<c10d::Work> work_;
};

class Transport {
 public:
  // `backend` null: a group of one.
  Transport(c10::intrusive_ptr<c10d::Backend> backend, int rank, int size)
      : rank_(rank), size_(size), backend_(std::move(backend)) {}
  int rank() const { return rank_; }
  int size() const { return size_; }

  Result<Message> Send(int peer, int tag, ConstBytes bytes);
  Result<Message> Receive(int peer, int tag, Bytes bytes);
  Result<Message> ReceiveFromAny(int tag, Bytes bytes);

  // Ends what is under way and all later calls.
  void Abort();
  // Abort, and closes the connections, once nobody has a Message any more.
  void Close();
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }

 private:
  friend class Message;
  template <typename Post>
  Result<Message> Start(const Post& post);
  void Forget(c10d::Work* work);

  int rank_, size_;
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;  // guards backend_ and under_way_
  c10::intrusive_ptr<c10d::Backend> backend_;
  std::unordered_set<c10d::Work*> under_way_;
};

}  // namespace tpu::distributed
