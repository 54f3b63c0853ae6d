#include "distributed/transport.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <utility>

#include "distributed/store_text.h"

namespace tpu::distributed {
namespace {

// No limit of the transport's.
constexpr auto kForEver = std::chrono::hours(24 * 365);

Status Aborted() { return {Code::kUnavailable, "the group was aborted"}; }

at::Tensor AsTensor(const std::byte* data, size_t size) {
  return at::from_blob(const_cast<std::byte*>(data), {static_cast<int64_t>(size)},
                       at::TensorOptions().dtype(at::kByte));
}

}  // namespace

Message::Message(Transport* transport, c10::intrusive_ptr<c10d::Work> work)
    : transport_(transport), work_(std::move(work)) {}

Message::Message(Message&& other) noexcept
    : transport_(std::exchange(other.transport_, nullptr)), work_(std::move(other.work_)) {}

Message& Message::operator=(Message&& other) noexcept {
  std::swap(transport_, other.transport_);
  std::swap(work_, other.work_);
  return *this;
}

Message::~Message() {
  if (transport_) transport_->Forget(work_.get());
}

Status Message::Await(Clock::time_point deadline) {
  transport_->Watch(work_.get(), deadline);
  Status status;
  try {
    if (!work_->wait(kForEver)) status = Aborted();
  } catch (const std::exception& error) {
    status = {Code::kUnavailable, FirstLine(error)};
  }
  if (transport_->aborted()) return Aborted();
  if (!status.ok() && transport_->IsLate(work_.get())) return {Code::kDeadlineExceeded, "timed out"};
  return status;
}

Transport::~Transport() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (watch_.joinable()) watch_.join();
}

void Transport::Watch(c10d::Work* work, Clock::time_point deadline) {
  bool sooner;
  {
    std::lock_guard lock(mutex_);
    under_way_[work].deadline = deadline;
    if (!watch_.joinable()) watch_ = std::thread([this] { EndLateOnes(); });
    sooner = deadline < next_look_;
  }
  // Otherwise it looks in time by itself, as it does when many calls have the same time limit.
  if (sooner) changed_.notify_all();
}

bool Transport::IsLate(c10d::Work* work) {
  std::lock_guard lock(mutex_);
  const auto found = under_way_.find(work);
  return found != under_way_.end() && found->second.late;
}

void Transport::EndLateOnes() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    const Clock::time_point now = Clock::now();
    next_look_ = Clock::time_point::max();
    for (auto& [work, wait] : under_way_) {
      if (!wait.deadline || wait.late) continue;
      if (*wait.deadline > now) {
        next_look_ = std::min(next_look_, *wait.deadline);
        continue;
      }
      wait.late = true;
      work->abort();
    }
    if (next_look_ == Clock::time_point::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, next_look_);
    }
  }
}

template <typename Post>
Result<Message> Transport::Start(const Post& post) {
  c10::intrusive_ptr<c10d::Backend> backend;
  {
    std::lock_guard lock(mutex_);
    backend = backend_;
  }
  if (aborted() || !backend) return Aborted();
  try {
    c10::intrusive_ptr<c10d::Work> work = post(*backend);
    {
      std::lock_guard lock(mutex_);
      under_way_.try_emplace(work.get());
    }
    if (aborted()) work->abort();
    return Message(this, std::move(work));
  } catch (const std::exception& error) {
    return Status(Code::kUnavailable, FirstLine(error));
  }
}

Result<Message> Transport::Send(int peer, int tag, ConstBytes bytes) {
  return Start([&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors{AsTensor(bytes.data(), bytes.size())};
    return backend.send(tensors, peer, tag);
  });
}

Result<Message> Transport::Receive(int peer, int tag, Bytes bytes) {
  return Start([&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors{AsTensor(bytes.data(), bytes.size())};
    return backend.recv(tensors, peer, tag);
  });
}

Result<Message> Transport::ReceiveFromAny(int tag, Bytes bytes) {
  return Start([&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors{AsTensor(bytes.data(), bytes.size())};
    return backend.recvAnysource(tensors, tag);
  });
}

void Transport::Abort() {
  aborted_.store(true, std::memory_order_release);
  std::lock_guard lock(mutex_);
  for (auto& [work, wait] : under_way_) work->abort();
}

void Transport::Close() {
  Abort();
  c10::intrusive_ptr<c10d::Backend> backend;
  {
    std::lock_guard lock(mutex_);
    backend.swap(backend_);
  }
}

void Transport::Forget(c10d::Work* work) {
  std::lock_guard lock(mutex_);
  under_way_.erase(work);
}

}  // namespace tpu::distributed
