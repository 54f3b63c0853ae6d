// What a process group does: carries out collectives in the order they were called, and messages between two ranks beside
// them, on threads of its own. It knows nothing of tensors: a Call has its Values.
//
// Failure: the first call that fails breaks the group. Its own and all later calls fail with the reason, connections are
// closed, so that the others notice, and the reason is left in the store for them to read.
// Lifetime: shared by the backend and the jobs of its lanes. Threads: any.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "distributed/completion.h"
#include "distributed/destination.h"
#include "distributed/exchange.h"
#include "distributed/failure_board.h"
#include "distributed/lane.h"

namespace tpu::distributed {

using Inputs = std::span<const ConstBytes>;
using Outputs = std::span<const Bytes>;

struct Call {
  std::string words;      // "all_reduce(SUM) of float32[4]"
  std::string agreement;  // what has to be alike on all ranks
  std::vector<runtime::ValuePtr> inputs;
  Destination outputs;
  // The collective: on host memory, row-major.
  std::function<Status(Exchange&, Inputs, Outputs)> body;
  std::chrono::milliseconds timeout{};
  CompletionPtr completion;  // of which this is one part
};

class Group {
 public:
  // `transport`, `board`: null for a group of one.
  Group(std::unique_ptr<FailureBoard> board, c10::intrusive_ptr<c10d::Backend> transport, int rank, int size,
        std::vector<int> global_ranks);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  int rank() const { return transport_.rank(); }
  int size() const { return transport_.size(); }
  void SetName(std::string name);
  uint64_t sequence();

  // Returns at once. The outputs must be committed.
  void StartCollective(Call call);
  void StartSend(Call call, int peer, int tag);
  void StartReceive(Call call, int peer, int tag);  // peer -1: from any

  // Empty while nothing has failed.
  std::string failure();
  // Waits for sends and collectives under way, until the deadline, and closes.
  void Shutdown(Clock::time_point deadline);
  // Fails what is under way and closes.
  void Abort(const std::string& reason);
  // Shutdown of all groups of the process, for interpreter exit.
  static void ShutdownAll(Clock::time_point deadline);

 private:
  enum class Direction { kSend, kReceive };
  Lane& LaneOf(Direction direction, int peer, int tag);  // under mutex_
  using How = std::function<Status(Call&, Clock::time_point deadline)>;
  void Push(Lane& lane, Call call, std::string which, How how);  // under mutex_
  void Carry(Call& call, const std::string& which, const How& how);
  Status Collective(Call& call, uint64_t number, Clock::time_point deadline);
  Status Send(Call& call, int peer, int tag, Clock::time_point deadline);
  Status Receive(Call& call, int peer, int tag, Clock::time_point deadline);
  void Fail(Call& call, const std::string& which, const Status& status);
  void AwaitLanes(Clock::time_point deadline);

  std::unique_ptr<FailureBoard> board_;
  Transport transport_;
  std::mutex mutex_;  // guards all below
  std::string name_;
  std::string failure_;
  bool ended_ = false;  // by the program, not by a failure
  std::unordered_set<runtime::Device*> devices_;
  uint64_t collectives_ = 0;
  std::vector<uint64_t> messages_;  // to each rank
  std::unique_ptr<Lane> collective_lane_;
  std::map<std::tuple<Direction, int, int>, std::unique_ptr<Lane>> lanes_;
};

}  // namespace tpu::distributed
