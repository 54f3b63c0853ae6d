// The handle of a collective.
//
// wait() is that of a stream: what the program does with the results afterwards comes after the collective, and the call
// returns at once; it raises where the collective has failed already. It blocks in debug mode, with a timeout, for a
// barrier, and where the rank that a message came from has to be known.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <functional>
#include <vector>

#include "distributed/completion.h"

namespace tpu::distributed {

class CollectiveWork final : public c10d::Work {
 public:
  struct Description {
    int rank = -1;
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char* title = nullptr;  // static: for the profiler
    uint64_t sequence = 0;
    bool blocking = false;
    std::function<void()> abort;  // the group
  };
  CollectiveWork(Description description, CompletionPtr completion, const std::vector<at::Tensor>& inputs,
                 std::vector<at::Tensor> outputs);

  bool isCompleted() override { return completion_->done(); }
  bool isSuccess() const override { return !completion_->error(); }
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return outputs_; }
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void blockCurrentStream() override { synchronize(); }
  void abort() override { description_.abort(); }
  // Completes when the collective does; callbacks run on a thread of their own.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return description_.sequence; }

 private:
  void RaiseIfFailed() const;

  Description description_;
  CompletionPtr completion_;
  std::vector<at::Tensor> outputs_;
  std::mutex future_mutex_;  // guards future_
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace tpu::distributed
