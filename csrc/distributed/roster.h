// How the processes of a group find each other in its store: before there is any connection between them.
//
// Each signs up and says what it is about to make; rank 0 compares, and answers each. Ranks that do not come are named when
// the time is over, and ranks that want different groups, or have different versions, are told so. The same store and
// prefix serve any number of groups, one after another, also after attempts that failed.
// Threads: one.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"
#include "distributed/rank_names.h"

namespace tpu::distributed {

struct Member {
  int rank = 0, size = 1;
  std::vector<int> global_ranks;  // of all members; empty: the group is all there is
  std::string version;            // of the software, which has to be the same everywhere
};

// A word that all members, and only they, have: what they keep in the store may begin with it. kDeadlineExceeded,
// kInvalidArgument.
Result<std::string> SignUp(c10d::Store& store, const Member& member, std::chrono::milliseconds timeout);

}  // namespace tpu::distributed
