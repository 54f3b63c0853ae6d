// Where the ranks of a group leave word, for each other to read, of why they gave up: in the group's store.
//
// It has a connection of its own to the store, one a process and store: the program may be waiting in the other, and
// opening one when the process that served it is gone would take the store's whole time limit.
// Threads: any.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

namespace tpu::distributed {

class FailureBoard {
 public:
  // `word`: the group's own, which its keys begin with.
  FailureBoard(const c10::intrusive_ptr<c10d::Store>& store, std::string word, int rank, int size);
  // Leaves `text`. Returns it with what others left: all of them, for which it waits a little, where the time is over (as
  // it is for them), else the first. Never throws.
  std::string Post(const std::string& text, bool timed_out) const;

 private:
  std::string KeyOf(int rank) const;

  c10::intrusive_ptr<c10d::Store> store_;
  std::string word_;
  int rank_, size_;
};

}  // namespace tpu::distributed
