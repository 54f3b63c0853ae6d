#include "aten/moving_views.h"

#include <ATen/MemoryOverlap.h>

#include "aten/errors.h"
#include "aten/tensor.h"
#include "runtime/recorder.h"

namespace tpu::aten {
namespace {

using c10::IValue;
using runtime::ValuePtr;

std::optional<hlo::ViewPlace> FindPlace(const at::Tensor& t, const runtime::Value& value, bool write) {
  const DType dtype = ToDType(t.scalar_type());
  const runtime::Type& base = value.type();
  if (base.dtype != dtype || IsWhole(t, value)) return std::nullopt;
  if (hlo::NumElements(base.dims) * static_cast<int64_t>(t.itemsize()) !=
      static_cast<int64_t>(SlotOf(t).size_bytes())) {
    return std::nullopt;
  }
  return hlo::PlaceOf(base.dims, ViewOf(t), write);
}

struct PlacedOp {
  runtime::OpPtr op;
};

// The op that reads views of one shape, or writes them.
runtime::OpPtr OpFor(const at::Tensor& t, const runtime::TypePtr& base, const runtime::TypePtr& starts,
                     const hlo::ViewPlace& place, bool write) {
  static auto& table = *new CallTable<PlacedOp>;  // never destroyed: ops may outlive the interpreter
  CallKey key;
  key.Add(uint64_t{write} | static_cast<uint64_t>(base->dtype) << 8 |
          uint64_t{runtime::CurrentMode() == runtime::Mode::kDebug} << 16);
  key.AddInts(base->dims);
  key.AddInts(t.sizes());
  key.AddInts(place.shape);
  if (const PlacedOp* found = table.Find(key)) return found->op;
  const hlo::View view = ViewOf(t);
  const auto emit = [view, write](hlo::Builder& b, std::span<const hlo::Value> inputs, hlo::Value) {
    runtime::Emission emission;
    emission.outputs = {write ? hlo::WriteViewAt(b, inputs[0], view, inputs[1], inputs[2])
                              : hlo::ReadViewAt(b, inputs[0], view, inputs[1])};
    return emission;
  };
  std::vector<runtime::TypePtr> inputs{base};
  std::vector<std::pair<int, int>> replaces;
  if (write) {
    inputs.push_back(std::make_shared<runtime::Type>(TypeOf(t)));
    replaces.emplace_back(0, 0);
  }
  inputs.push_back(starts);
  auto op = std::make_unique<PlacedOp>();
  op->op = std::make_shared<runtime::Op>(write ? "view.write" : "view.read", emit, std::move(inputs), replaces,
                                         /*checks=*/false);
  return table.Insert(key, std::move(op))->op;
}

// `update`: what to write; without it, reads.
runtime::Recorded RunAt(const at::Tensor& t, ValuePtr update) {
  runtime::Slot& slot = SlotOf(t);
  ValuePtr value = slot.Get();
  const auto place = FindPlace(t, *value, update != nullptr);
  TORCH_INTERNAL_ASSERT(place, "tpu: the place of a view has changed");
  const auto count = static_cast<int64_t>(place->starts.size());
  const auto type = std::make_shared<const runtime::Type>(runtime::Type{DType::kI64, {count}});
  auto starts = c10::make_intrusive<runtime::Value>(
      slot.device(), type,
      std::string(reinterpret_cast<const char*>(place->starts.data()), place->starts.size() * sizeof(int64_t)));
  const runtime::OpPtr op = OpFor(t, value->type_ptr(), type, *place, update != nullptr);
  std::vector<ValuePtr> inputs{std::move(value)};
  if (update) inputs.push_back(std::move(update));
  inputs.push_back(std::move(starts));
  return ValueOrRaise(runtime::Record(slot.device(), op, std::move(inputs), {}));
}

bool IsWritten(const Call& call, const TensorOperand& operand) {
  return call.plan->arguments[operand.argument].mutated;
}

bool CanRead(const TensorOperand& operand) {
  return operand.value && FindPlace(*operand.tensor, *operand.value, false).has_value();
}

}  // namespace

bool MovingViews::CanMove(const Call& call) {
  if (runtime::Capture::Current() || call.plan->match.foreach) return false;
  bool moves = false;
  int written = 0;
  for (const TensorOperand& operand : call.tensors) {
    moves = moves || CanRead(operand);
    if (!IsWritten(call, operand)) continue;
    // One that is written in place, alone in its storage.
    if (++written > 1 || operand.argument != 0 || at::has_internal_overlap(*operand.tensor) == at::MemOverlap::Yes ||
        !operand.value) {
      return false;
    }
    if (CanRead(operand) && !FindPlace(*operand.tensor, *operand.value, true)) return false;
    for (const TensorOperand& other : call.tensors) {
      if (&other != &operand && &SlotOf(*other.tensor) == &SlotOf(*operand.tensor)) return false;
    }
  }
  return moves;
}

MovingViews::MovingViews(const Call& call) : call_(call) {
  for (const TensorOperand& operand : call.tensors) {
    at::Tensor& dense = dense_.emplace_back();
    if (!CanRead(operand)) continue;
    const runtime::Recorded value = RunAt(*operand.tensor, nullptr);
    dense = FromValue(value[0]);
  }
}

torch::jit::Stack MovingViews::Arguments() {
  torch::jit::Stack stack;
  size_t next = 0;
  for (const IValue& argument : call_.arguments) {
    stack.push_back(MapTensors(argument, [&](const at::Tensor& t) {
      if (!t.defined() || !IsTpu(t)) return t;
      const at::Tensor& dense = dense_[next++];
      return dense.defined() ? dense : t;
    }));
  }
  return stack;
}

std::vector<IValue> MovingViews::Finish(torch::jit::Stack results) const {
  for (size_t i = 0; i < dense_.size(); ++i) {
    if (!dense_[i].defined() || !IsWritten(call_, call_.tensors[i])) continue;
    const at::Tensor& t = *call_.tensors[i].tensor;
    const runtime::Recorded value = RunAt(t, SlotOf(dense_[i]).Get());
    Write(t, value[0]);
  }
  std::vector<IValue> returned(std::make_move_iterator(results.begin()), std::make_move_iterator(results.end()));
  for (size_t r = 0; r < returned.size(); ++r) {
    const int argument = call_.plan->returns.at(r);
    if (argument >= 0) returned[r] = call_.arguments[argument];
  }
  return returned;
}

}  // namespace tpu::aten
