#include "distributed/process_group.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <utility>

#include "aten/guard.h"
#include "distributed/batch.h"
#include "distributed/roster.h"
#include "runtime/recorder.h"

namespace tpu::distributed {
namespace {

constexpr int kMaxTag = (1 << kTagBits) - 1;

}  // namespace

ProcessGroup::ProcessGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                           const c10::intrusive_ptr<Options>& options, Connect connect)
    : c10d::Backend(rank, size), options_(options), connect_(std::move(connect)) {
  std::vector<int> global(options_->global_ranks_in_group.begin(), options_->global_ranks_in_group.end());
  c10::intrusive_ptr<c10d::Backend> transport;
  std::unique_ptr<FailureBoard> board;
  if (size > 1) {
    const auto signed_up = SignUp(*store, {rank, size, global, options_->version}, options_->timeout);
    if (!signed_up.ok()) {
      C10_THROW_ERROR(DistBackendError, "tpu, group " + options_->group_name + ", " + NameOf(rank, global) + " of " +
                                            std::to_string(size) + ": " + signed_up.status().message());
    }
    // The same store may have served a group of this name before: each has keys of its own.
    transport =
        connect_(c10::make_intrusive<c10d::PrefixStore>(signed_up.value(), store), rank, size, options_->timeout);
    board = std::make_unique<FailureBoard>(store, signed_up.value(), rank, size);
  }
  group_ = std::make_shared<Group>(std::move(board), std::move(transport), rank, size, std::move(global));
  group_->SetName(options_->group_name);
  init();
}

void ProcessGroup::setTimeout(std::chrono::milliseconds timeout) { options_->timeout = timeout; }

void ProcessGroup::setGroupUid(const std::string& uid) {
  c10d::Backend::setGroupUid(uid);
  group_->SetName(uid);
}

c10d::ErrorType ProcessGroup::getError() {
  return group_->failure().empty() ? c10d::ErrorType::SUCCESS : c10d::ErrorType::COMM_ERROR;
}

void ProcessGroup::abort() { group_->Abort("the group was aborted"); }

void ProcessGroup::shutdown() { group_->Shutdown(Clock::now() + options_->timeout); }

c10::intrusive_ptr<c10d::Backend> ProcessGroup::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const std::vector<int>& ranks,
                                                      const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto own = std::find(ranks.begin(), ranks.end(), rank_);
  if (own == ranks.end()) return nullptr;
  auto chosen = c10::make_intrusive<Options>(options->timeout);
  chosen->group_name = options->group_name;
  chosen->version = options_->version;
  chosen->group_desc = options->group_desc;
  for (int rank : ranks) {
    const auto& global = options_->global_ranks_in_group;
    chosen->global_ranks_in_group.push_back(global.empty() ? static_cast<uint64_t>(rank) : global.at(rank));
  }
  return c10::make_intrusive<ProcessGroup>(store, static_cast<int>(own - ranks.begin()), static_cast<int>(ranks.size()),
                                           chosen, connect_);
}

std::function<void()> ProcessGroup::Aborter() const {
  return [group = std::weak_ptr(group_)] {
    if (auto alive = group.lock()) alive->Abort("the group was aborted");
  };
}

c10::intrusive_ptr<c10d::Work> ProcessGroup::Start(Batch batch) {
  TORCH_CHECK_NOT_IMPLEMENTED(!runtime::Capture::Current(), "torch.distributed.", batch.name,
                              ": a collective cannot be part of a captured function");
  TORCH_INTERNAL_ASSERT(!batch.calls.empty());
  runtime::Device& device = batch.device ? *batch.device : aten::DeviceAt(-1);
  CompletionPtr completion;
  const int parts = static_cast<int>(batch.calls.size());
  {
    std::lock_guard lock(mutex_);
    if (coalescing_) {
      if (!coalesced_) coalesced_ = std::make_shared<Completion>(device, 1);
      completion = coalesced_;
      for (int i = 0; i < parts; ++i) completion->AddPart();
      coalesced_outputs_.insert(coalesced_outputs_.end(), batch.written.begin(), batch.written.end());
    } else {
      completion = std::make_shared<Completion>(device, parts);
    }
  }
  const std::chrono::milliseconds timeout = batch.timeout.count() > 0 ? batch.timeout : options_->timeout;
  auto work = c10::make_intrusive<CollectiveWork>(
      CollectiveWork::Description{rank_, batch.type, batch.title, group_->sequence() + 1, batch.blocking, Aborter()},
      completion, batch.read, batch.written);
  for (Call& call : batch.calls) {
    call.timeout = timeout;
    call.completion = completion;
    call.outputs.Commit();
    switch (batch.type) {
      case c10d::OpType::SEND: group_->StartSend(std::move(call), batch.peer, batch.tag); break;
      case c10d::OpType::RECV:
      case c10d::OpType::RECVANYSOURCE: group_->StartReceive(std::move(call), batch.peer, batch.tag); break;
      default: group_->StartCollective(std::move(call));
    }
  }
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroup::send(Tensors& tensors, int peer, int tag) {
  Batch batch(c10d::OpType::SEND, "send", "tpu:send", c10d::kUnsetTimeout);
  const at::Tensor& tensor = batch.Single(tensors);
  TORCH_CHECK(peer >= 0 && peer < size_ && peer != rank_, "send: expected the rank of another process of ", size_,
              ", found ", peer);
  TORCH_CHECK(tag >= 0 && tag <= kMaxTag, "send: expected a tag from 0 to ", kMaxTag, ", found ", tag);
  batch.peer = peer;
  batch.tag = tag;
  Call& call = batch.Add("send(dst=" + std::to_string(peer) + ") of " + Describe(tensor),
                         Describe(tensor.scalar_type()) + " " + std::to_string(tensor.numel()));
  batch.Read(call, tensor);
  return Start(std::move(batch));
}

c10::intrusive_ptr<c10d::Work> ProcessGroup::Receive(Tensors& tensors, int peer, int tag) {
  const bool any = peer < 0;
  Batch batch(any ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV, "recv", "tpu:recv", c10d::kUnsetTimeout);
  const at::Tensor& tensor = batch.Single(tensors);
  TORCH_CHECK(any || (peer < size_ && peer != rank_), "recv: expected the rank of another process of ", size_,
              ", found ", peer);
  TORCH_CHECK(tag >= 0 && tag <= kMaxTag, "recv: expected a tag from 0 to ", kMaxTag, ", found ", tag);
  batch.peer = peer;
  batch.tag = tag;
  Call& call = batch.Add("recv(src=" + (any ? std::string("any") : std::to_string(peer)) + ") of " + Describe(tensor),
                         Describe(tensor.scalar_type()) + " " + std::to_string(tensor.numel()));
  batch.Write(call, tensor);
  return Start(std::move(batch));
}

c10::intrusive_ptr<c10d::Work> ProcessGroup::recv(Tensors& tensors, int peer, int tag) {
  TORCH_CHECK(peer >= 0, "recv: expected a rank, found ", peer);
  return Receive(tensors, peer, tag);
}

c10::intrusive_ptr<c10d::Work> ProcessGroup::recvAnysource(Tensors& tensors, int tag) {
  return Receive(tensors, -1, tag);
}

c10::intrusive_ptr<c10d::Work> ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  Batch batch(c10d::OpType::BARRIER, "barrier", "tpu:barrier", options.timeout);
  if (options.device && options.device->type() == c10::DeviceType::PrivateUse1) {
    batch.device = &aten::DeviceAt(options.device->index());
  }
  batch.blocking = true;
  batch.Add("barrier()", "barrier").body = [](Exchange& exchange, Inputs, Outputs) { return Barrier(exchange); };
  return Start(std::move(batch));
}

void ProcessGroup::monitoredBarrier(const c10d::BarrierOptions& options, bool /*wait_all_ranks*/) {
  // Every barrier names all ranks that are missing.
  barrier(options)->wait();
}

void ProcessGroup::startCoalescing() {
  std::lock_guard lock(mutex_);
  TORCH_CHECK(!coalescing_, "startCoalescing: it has been called already");
  coalescing_ = true;
}

c10::intrusive_ptr<c10d::Work> ProcessGroup::endCoalescing() {
  CompletionPtr completion;
  Tensors outputs;
  {
    std::lock_guard lock(mutex_);
    TORCH_CHECK(std::exchange(coalescing_, false), "endCoalescing: startCoalescing was not called");
    completion = std::move(coalesced_);
    outputs = std::move(coalesced_outputs_);
    coalesced_outputs_.clear();
  }
  if (!completion) return nullptr;
  completion->Finish(nullptr);
  return c10::make_intrusive<CollectiveWork>(
      CollectiveWork::Description{rank_, c10d::OpType::COALESCED, "tpu:coalesced", group_->sequence(), false,
                                  Aborter()},
      completion, Tensors(), std::move(outputs));
}

}  // namespace tpu::distributed
