#include "distributed/transport.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <utility>

namespace tpu::distributed {
namespace {

Status Aborted() { return {Code::kUnavailable, "the group was aborted"}; }

// The first line of what the transport says: the rest is a C++ stack.
std::string FirstLine(const std::exception& error) {
  const auto* ours = dynamic_cast<const c10::Error*>(&error);
  std::string text = ours ? ours->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

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
  using std::chrono::milliseconds;
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  Status status;
  try {
    // Zero would mean the transport's own time limit.
    if (!work_->wait(std::max(left, milliseconds(1)))) status = Aborted();
  } catch (const std::exception& error) {
    const bool late = Clock::now() >= deadline;
    status = {late ? Code::kDeadlineExceeded : Code::kUnavailable, FirstLine(error)};
  }
  if (transport_->aborted()) status = Aborted();
  return status;
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
      under_way_.insert(work.get());
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
  for (c10d::Work* work : under_way_) work->abort();
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
