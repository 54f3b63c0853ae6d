#include "distributed/exchange.h"

#include <cstring>
#include <utility>

#include "base/hash.h"

namespace tpu::distributed {
namespace {

std::string Milliseconds(Clock::duration duration) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return std::to_string(ms) + " ms";
}

}  // namespace

Exchange::Exchange(Transport& transport, uint64_t number, uint64_t agreement, std::string words,
                   Clock::time_point deadline)
    : transport_(transport),
      number_(number),
      agreement_(agreement),
      words_(std::move(words)),
      begin_(Clock::now()),
      deadline_(deadline) {}

Status Exchange::Run(const std::vector<ConstBytes>& send, const std::vector<Bytes>& receive) {
  const int self = rank();
  if (send[self].size() != receive[self].size()) {
    return {Code::kInvalidArgument, "what the rank sends to itself has " + std::to_string(send[self].size()) +
                                        " bytes, and " + std::to_string(receive[self].size()) + " are expected"};
  }
  if (!send[self].empty() && send[self].data() != receive[self].data()) {
    std::memcpy(receive[self].data(), send[self].data(), send[self].size());
  }
  const bool frames = !std::exchange(greeted_, true);
  if (frames) TPU_RETURN_IF_ERROR(RunFrames(send, receive));
  const auto apart = [&](size_t bytes) { return frames ? !IsInline(bytes) : bytes > 0; };
  for (int step = 1; step < size(); ++step) {
    const int peer = (self + step) % size();
    if (apart(receive[peer].size())) TPU_RETURN_IF_ERROR(Receive(peer, receive[peer]));
  }
  for (int step = 1; step < size(); ++step) {
    const int peer = (self + size() - step) % size();
    if (apart(send[peer].size())) TPU_RETURN_IF_ERROR(Send(peer, send[peer]));
  }
  return AwaitUpTo(posted());
}

Status Exchange::Send(int peer, ConstBytes bytes) {
  return Post(peer, bytes, [&](int tag) { return transport_.Send(peer, tag, bytes); });
}

Status Exchange::Receive(int peer, Bytes bytes) {
  return Post(peer, bytes, [&](int tag) { return transport_.Receive(peer, tag, bytes); });
}

template <typename Start>
Status Exchange::Post(int peer, ConstBytes bytes, const Start& start) {
  if (bytes.empty()) return {};
  Result<Message> message = start(TagOf(Channel::kCollectiveData, number_));
  if (!message.ok()) {
    under_way_.clear();
    return Lost(peer, message.status());
  }
  under_way_.emplace_back(peer, std::move(message).value());
  return {};
}

Status Exchange::AwaitUpTo(size_t count) {
  for (; awaited_ < count; ++awaited_) {
    auto [peer, message] = std::move(under_way_.front());
    under_way_.pop_front();
    if (Status s = message.Await(deadline_); !s.ok()) {
      under_way_.clear();  // before their memory goes
      return Lost(peer, s);
    }
  }
  return {};
}

Status Exchange::RunFrames(const std::vector<ConstBytes>& send, const std::vector<Bytes>& receive) {
  const int self = rank();
  const bool all = size() <= kMaxChecked;
  const int tag = TagOf(Channel::kCollective, number_);
  // A frame that never arrives may still be written to while its message is given up.
  std::vector<std::unique_ptr<Frame>> in(size()), out(size());
  std::vector<std::pair<int, Message>> arriving, leaving;
  for (int step = 1; step < size(); ++step) {
    const int peer = (self + step) % size();
    if (!all && receive[peer].empty()) continue;
    in[peer] = std::make_unique<Frame>();
    Result<Message> message = transport_.Receive(peer, tag, in[peer]->bytes());
    if (!message.ok()) return Lost(peer, message.status());
    arriving.emplace_back(peer, std::move(message).value());
  }
  for (int step = 1; step < size(); ++step) {
    const int peer = (self + size() - step) % size();
    if (!all && send[peer].empty()) continue;
    out[peer] = std::make_unique<Frame>();
    out[peer]->Write(agreement_, number_, words_, send[peer]);
    Result<Message> message = transport_.Send(peer, tag, out[peer]->bytes());
    if (!message.ok()) return Lost(peer, message.status());
    leaving.emplace_back(peer, std::move(message).value());
  }
  for (auto& [peer, message] : arriving) {
    if (Status s = message.Await(deadline_); !s.ok()) return Missing(in, peer, s);
  }
  for (auto& [peer, message] : leaving) {
    if (Status s = message.Await(deadline_); !s.ok()) return Lost(peer, s);
  }
  TPU_RETURN_IF_ERROR(Check(in, receive));
  for (int peer = 0; peer < size(); ++peer) {
    if (in[peer] && !receive[peer].empty() && IsInline(receive[peer].size())) {
      std::memcpy(receive[peer].data(), in[peer]->payload().data(), receive[peer].size());
    }
  }
  return {};
}

Status Exchange::Check(const std::vector<std::unique_ptr<Frame>>& frames, const std::vector<Bytes>& receive) const {
  for (int peer = 0; peer < size(); ++peer) {
    const Frame* frame = frames[peer].get();
    if (!frame) continue;
    const bool alike = frame->agreement() == agreement_;
    if (alike && frame->payload_bytes() == receive[peer].size()) continue;
    std::string message = "the ranks do not call the same collective: " + transport_.NameOf(rank()) + " called " +
                          words_ + ", " + transport_.NameOf(peer) + " called " + frame->words();
    if (alike) {
      message += ", which sends " + std::to_string(frame->payload_bytes()) + " bytes where " +
                 std::to_string(receive[peer].size()) + " are expected";
    }
    return {Code::kInvalidArgument, std::move(message)};
  }
  return {};
}

Status Exchange::Missing(const std::vector<std::unique_ptr<Frame>>& frames, int peer, const Status& status) const {
  if (status.code() != Code::kDeadlineExceeded) return Lost(peer, status);
  std::vector<int> missing;
  for (int p = 0; p < size(); ++p) {
    if (frames[p] && !frames[p]->complete()) missing.push_back(p);
  }
  if (missing.empty()) missing.push_back(peer);
  return {Code::kDeadlineExceeded, "timed out after " + Milliseconds(Clock::now() - begin_) + " waiting for " +
                                       transport_.NamesOf(missing) + ", which did not call it"};
}

Status Exchange::Lost(int peer, const Status& status) const {
  if (status.code() == Code::kDeadlineExceeded) {
    return {status.code(), "timed out after " + Milliseconds(Clock::now() - begin_) + " waiting for " +
                               transport_.NameOf(peer) + " to send or take its data"};
  }
  return {status.code(), "lost " + transport_.NameOf(peer) + " (" + status.message() + ")"};
}

uint64_t AgreementOf(std::string_view text) { return HashWords(text); }

}  // namespace tpu::distributed
