// One call of the program's, as it is put together: the tensors that it reads and writes, as one Call or several.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "aten/tensor.h"
#include "distributed/call_description.h"
#include "distributed/process_group.h"

namespace tpu::distributed {

struct ProcessGroup::Batch {
  c10d::OpType type;
  std::string name;   // "all_reduce", for messages
  const char* title;  // for the profiler
  std::chrono::milliseconds timeout;
  runtime::Device* device = nullptr;  // of the first tensor
  bool blocking = false;
  int peer = -1, tag = 0;
  std::vector<Call> calls;
  Tensors read, written;

  Batch(c10d::OpType type_, std::string name_, const char* title_, std::chrono::milliseconds timeout_)
      : type(type_), name(std::move(name_)), title(title_), timeout(timeout_) {}

  // `words` for messages; `agreement`: what has to be alike on all ranks.
  Call& Add(std::string words, std::string agreement) {
    Call& call = calls.emplace_back();
    call.words = std::move(words);
    call.agreement = std::move(agreement);
    return call;
  }
  void Read(Call& call, const at::Tensor& tensor) {
    call.inputs.push_back(SourceOf(tensor));
    Note(tensor);
    read.push_back(tensor);
  }
  void Write(Call& call, const at::Tensor& tensor) {
    call.outputs.Add(tensor);
    Note(tensor);
    written.push_back(tensor);
  }
  // The only one of a list.
  const at::Tensor& Single(const Tensors& tensors) const {
    TORCH_CHECK(tensors.size() == 1, name, ": expected a single tensor, found ", tensors.size());
    return tensors.front();
  }
  // The only list, which has a tensor for each of `size` ranks. `what`: "input", "output".
  const Tensors& OnePerRank(const std::vector<Tensors>& lists, int size, const char* what) const {
    TORCH_CHECK(lists.size() == 1 && lists[0].size() == static_cast<size_t>(size), name, ": expected a list of ", size,
                " ", what, " tensors, found ", lists.empty() ? 0 : lists[0].size());
    return lists.front();
  }
  void CheckSameType(const at::Tensor& a, const at::Tensor& b) const {
    TORCH_CHECK_TYPE(a.scalar_type() == b.scalar_type(), name, ": expected tensors of one type, found ",
                     Describe(a.scalar_type()), " and ", Describe(b.scalar_type()));
  }
  // What a rank sends to itself has to fit.
  void CheckOwn(const at::Tensor& input, const at::Tensor& output) const {
    TORCH_CHECK_VALUE(input.numel() == output.numel(), name,
                      ": expected an input of the size of the own output, found ", Describe(input), " and ",
                      Describe(output));
  }

 private:
  void Note(const at::Tensor& tensor) {
    runtime::Device& own = aten::SlotOf(tensor).device();
    TORCH_CHECK(!device || device == &own, name, ": expected tensors on one device, found tpu:", own.index(),
                " and tpu:", device ? device->index() : 0);
    device = &own;
  }
};

}  // namespace tpu::distributed
