// The one pattern that all collectives are made of: each rank has bytes for each other rank.
//
// An Exchange belongs to one call of one collective. Its first round carries the frames, so that a rank which does
// something else is found before any data has moved; in a group of more than kMaxChecked ranks only those exchange frames
// that exchange data.
// Threads: one.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "distributed/frame.h"
#include "distributed/transport.h"

namespace tpu::distributed {

constexpr int kMaxChecked = 32;

// Tags of the transport: what a message belongs to, and which one.
enum class Channel : int { kPointToPoint, kPointToPointData, kCollective, kCollectiveData };
constexpr int kTagBits = 28;
constexpr int TagOf(Channel channel, uint64_t number) {
  return (static_cast<int>(channel) << kTagBits) | static_cast<int>(number & ((uint64_t{1} << kTagBits) - 1));
}

class Exchange {
 public:
  // `agreement`: what must be alike on all ranks; `words`: the call, for messages.
  Exchange(Transport& transport, uint64_t number, uint64_t agreement, std::string words, Clock::time_point deadline);
  int rank() const { return transport_.rank(); }
  int size() const { return transport_.size(); }

  // Sends send[p] to each rank p and fills receive[p] from it; the rank's own is copied. Both have a span for every rank.
  Status Run(const std::vector<ConstBytes>& send, const std::vector<Bytes>& receive);

  // A round of one's own making, after the first: messages between two ranks match in the order they are posted.
  Status Send(int peer, ConstBytes bytes);
  Status Receive(int peer, Bytes bytes);
  // Waits for those posted first, up to `count` in all, sends and receives alike.
  Status AwaitUpTo(size_t count);
  size_t posted() const { return awaited_ + under_way_.size(); }

 private:
  template <typename Start>
  Status Post(int peer, ConstBytes bytes, const Start& start);
  Status RunFrames(const std::vector<ConstBytes>& send, const std::vector<Bytes>& receive);
  Status Check(const std::vector<std::unique_ptr<Frame>>& frames, const std::vector<Bytes>& receive) const;
  Status Missing(const std::vector<std::unique_ptr<Frame>>& frames, int peer, const Status& status) const;
  Status Lost(int peer, const Status& status) const;

  Transport& transport_;
  uint64_t number_, agreement_;
  std::string words_;
  Clock::time_point begin_, deadline_;
  bool greeted_ = false;
  std::deque<std::pair<int, Message>> under_way_;
  size_t awaited_ = 0;
};

// The hash of an agreement.
uint64_t AgreementOf(std::string_view text);

}  // namespace tpu::distributed
