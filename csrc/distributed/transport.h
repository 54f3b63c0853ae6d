// Messages between the processes of a group: host memory, matched by (peer, tag) in the order they were posted.
//
// Carried by any c10d::Backend that sends and receives CPU tensors: Gloo. Its own time limits are not used: it closes all
// connections as one passes, so that the other ranks would learn of a lost rank before this one has told them which was late.
// Threads: any may send and receive; a Message is waited for by one thread. One thread of a Transport's ends what is late.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "distributed/host_array.h"
#include "distributed/rank_names.h"

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
  // `backend` null: a group of one. `global_ranks`: what the members are called outside, when it is something else.
  Transport(c10::intrusive_ptr<c10d::Backend> backend, int rank, int size, std::vector<int> global_ranks)
      : rank_(rank), size_(size), global_ranks_(std::move(global_ranks)), backend_(std::move(backend)) {}
  ~Transport();
  int rank() const { return rank_; }
  int size() const { return size_; }
  // "rank 1", or "rank 1 (global rank 5)".
  std::string NameOf(int rank) const { return distributed::NameOf(rank, global_ranks_); }
  std::string NamesOf(const std::vector<int>& ranks) const { return distributed::NamesOf(ranks, global_ranks_); }

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
  // Has the wait for `work` end at the deadline.
  void Watch(c10d::Work* work, Clock::time_point deadline);
  bool IsLate(c10d::Work* work);
  void EndLateOnes();

  struct Wait {
    std::optional<Clock::time_point> deadline;
    bool late = false;
  };

  int rank_, size_;
  std::vector<int> global_ranks_;
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;  // guards all below
  c10::intrusive_ptr<c10d::Backend> backend_;
  std::unordered_map<c10d::Work*, Wait> under_way_;
  std::condition_variable changed_;
  Clock::time_point next_look_ = Clock::time_point::min();  // of the watch's
  bool closing_ = false;
  std::thread watch_;
};

}  // namespace tpu::distributed
