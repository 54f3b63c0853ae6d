#include "distributed/failure_board.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "distributed/store_text.h"

namespace tpu::distributed {
namespace {

using Clock = std::chrono::steady_clock;
// How long a rank that timed out waits for the others, which time out as well, to say what they were doing.
constexpr auto kReportWait = std::chrono::milliseconds(1000);
constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr size_t kMaxQuoted = 8;  // other ranks' words in one message

struct Connection {
  c10::weak_intrusive_ptr<c10d::Store> store, second;
};
std::mutex connections_mutex;  // guards connections
std::vector<Connection>& connections = *new std::vector<Connection>;

c10::intrusive_ptr<c10d::Store> SecondConnection(c10::intrusive_ptr<c10d::Store> store) {
  if (auto* prefixed = dynamic_cast<c10d::PrefixStore*>(store.get())) store = prefixed->getUnderlyingNonPrefixStore();
  std::lock_guard lock(connections_mutex);
  std::erase_if(connections, [](const Connection& c) { return c.store.expired() || c.second.expired(); });
  for (const Connection& connection : connections) {
    if (connection.store.lock() != store) continue;
    if (auto second = connection.second.lock()) return second;
  }
  c10::intrusive_ptr<c10d::Store> second = store->clone();
  connections.push_back({c10::weak_intrusive_ptr<c10d::Store>(store), c10::weak_intrusive_ptr<c10d::Store>(second)});
  return second;
}

}  // namespace

FailureBoard::FailureBoard(const c10::intrusive_ptr<c10d::Store>& store, std::string word, int rank, int size)
    : store_(SecondConnection(store)), word_(std::move(word)), rank_(rank), size_(size) {}

std::string FailureBoard::KeyOf(int rank) const { return "torchtpu/failure/" + word_ + "/" + std::to_string(rank); }

std::string FailureBoard::Post(const std::string& text, bool timed_out) const {
  std::string report = text;
  try {
    SetText(*store_, KeyOf(rank_), text);
    const std::string first = store_->compareSet("torchtpu/failure/" + word_, "", text);
    if (!timed_out) return first == text ? report : report + "\n  first failure: " + first;
    const auto until = Clock::now() + kReportWait;
    size_t quoted = 0;
    for (int peer = 0; peer < size_ && quoted < kMaxQuoted; ++peer) {
      if (peer == rank_) continue;
      while (!store_->check({KeyOf(peer)}) && Clock::now() < until) std::this_thread::sleep_for(kPoll);
      if (!store_->check({KeyOf(peer)})) continue;
      report += "\n  rank " + std::to_string(peer) + ": " + GetText(*store_, KeyOf(peer));
      ++quoted;
    }
  } catch (const std::exception&) {
    // The store went with the rank that served it.
    report += "\n  the group's store is lost as well";
  }
  return report;
}

}  // namespace tpu::distributed
