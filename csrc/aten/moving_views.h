// A call whose views begin elsewhere each time (x[i] in a loop), by programs that take the place as data: its views are
// read into tensors of their own, the operation runs on those, and what it wrote is put back.
#pragma once

#include <vector>

#include "aten/call.h"

namespace tpu::aten {

class MovingViews {
 public:
  // Whether some operand is a view that can be cut out so, and none that is written stands in the way.
  static bool CanMove(const Call& call);

  explicit MovingViews(const Call& call);
  // The call's arguments with those views replaced.
  torch::jit::Stack Arguments();
  // Writes back; what the call returns.
  std::vector<c10::IValue> Finish(torch::jit::Stack results) const;

 private:
  const Call& call_;
  std::vector<at::Tensor> dense_;  // per tensor operand; undefined: as it is
};

}  // namespace tpu::aten
