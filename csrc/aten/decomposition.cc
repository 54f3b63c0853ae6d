#include "aten/decomposition.h"

#include <algorithm>

#include "aten/errors.h"
#include "aten/graph_op.h"
#include "aten/meta.h"
#include "aten/tensor.h"
#include "base/phase.h"
#include "runtime/recorder.h"

namespace tpu::aten {
namespace {

using c10::IValue;
using torch::jit::Stack;

DecomposeHook decompose_hook = nullptr;  // set once at import

// Ops being decomposed by this thread: a decomposition that comes back to its op would not end.
thread_local std::vector<const void*> in_progress;

class InProgress {
 public:
  explicit InProgress(const c10::OperatorHandle& op) { in_progress.push_back(&op.schema()); }
  ~InProgress() { in_progress.pop_back(); }
  InProgress(const InProgress&) = delete;
  InProgress& operator=(const InProgress&) = delete;
};

bool IsInProgress(const c10::OperatorHandle& op) {
  return std::find(in_progress.begin(), in_progress.end(), &op.schema()) != in_progress.end();
}

// The call's arguments with every device tensor replaced by one of the same geometry over a placeholder Value.
class Placeholders {
 public:
  explicit Placeholders(const Call& call) {
    int next = 0;
    for (const TensorOperand& operand : call.tensors) {
      const at::Tensor& t = *operand.tensor;
      const bool shares = operand.slot < static_cast<int>(tensors.size());
      at::Tensor copy = PlaceholderFor(*call.device, t, shares ? &tensors[operand.slot] : nullptr);
      int input = -1;
      if (operand.value) {
        auto value = c10::make_intrusive<runtime::Value>(*call.device, operand.value->type_ptr());
        if (!shares) SlotOf(copy).Set(value);
        values.push_back(std::move(value));
        input = next++;
      }
      inputs.push_back(shares ? inputs[operand.slot] : input);
      tensors.push_back(std::move(copy));
    }
    for (const IValue& argument : call.arguments)
      stack.push_back(MapTensors(argument, [this](const at::Tensor& t) { return Next(t); }));
  }

  std::vector<at::Tensor> tensors;        // per tensor operand
  std::vector<int> inputs;                // per tensor operand, its input or -1
  std::vector<runtime::ValuePtr> values;  // per input
  Stack stack;

 private:
  at::Tensor Next(const at::Tensor& t) { return t.defined() && IsTpu(t) ? tensors[used_++] : t; }

  size_t used_ = 0;
};

class Finisher {
 public:
  Finisher(const c10::OperatorHandle& op, const Call& call, const Placeholders& placeholders)
      : op_(op), call_(call), placeholders_(placeholders) {}

  std::unique_ptr<Entry> Finish(runtime::Graph graph, const Stack& results) {
    for (size_t r = 0; r < results.size(); ++r) AddReturn(static_cast<int>(r), results[r]);
    std::vector<std::pair<int, int>> replaces;
    for (size_t i = 0; i < placeholders_.tensors.size(); ++i) {
      runtime::ValuePtr now = SlotOf(placeholders_.tensors[i]).Get();
      const int input = placeholders_.inputs[i];
      if (!now || (input >= 0 && now == placeholders_.values[input])) continue;
      if (input >= 0) replaces.emplace_back(input, static_cast<int>(results_.size()));
      results_.push_back({std::move(now), std::nullopt, DType::kBool});
      entry_->writes.push_back(static_cast<int>(i));
      AddResize(static_cast<int>(i));
    }
    entry_->op = MakeGraphOp(call_.plan->name, std::move(graph), placeholders_.values, std::move(results_), replaces);
    return std::move(entry_);
  }

 private:
  void AddTensor(const at::Tensor& tensor) {
    TORCH_CHECK_NOT_IMPLEMENTED(IsTpu(tensor), call_.plan->name, ": its decomposition gives a tensor on ",
                                tensor.device().str());
    // A result that is a view of something else gets memory of its own.
    results_.push_back(DenseResult(tensor));
    entry_->outputs.push_back(
        {tensor.scalar_type(), tensor.sizes().vec(), hlo::ContiguousStrides(tensor.sizes().vec()), true});
  }

  void AddReturn(int index, const IValue& value) {
    using Kind = Entry::Return::Kind;
    const int argument = call_.plan->returns.at(index);
    const int first = static_cast<int>(entry_->outputs.size());
    if (argument >= 0) {
      entry_->returns.push_back({Kind::kArgument, argument, 0, {}});
    } else if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorVector()) AddTensor(t);
      entry_->returns.push_back({Kind::kList, first, static_cast<int>(entry_->outputs.size()) - first, {}});
    } else if (value.isTensor() && value.toTensor().defined()) {
      AddTensor(value.toTensor());
      entry_->returns.push_back({Kind::kTensor, first, 0, {}});
    } else {
      TORCH_CHECK_NOT_IMPLEMENTED(value.isTensor() || value.isNone(), call_.plan->name, ": its decomposition gives a ",
                                  value.tagKind());
      entry_->returns.push_back({Kind::kUndefined, 0, 0, {}});
    }
  }

  void AddResize(int operand) {
    const at::Tensor& now = placeholders_.tensors[operand];
    const at::Tensor& was = *call_.tensors[operand].tensor;
    if (now.sizes() == was.sizes()) return;
    CheckMayResize(op_, call_.tensors[operand].argument, was, now.sizes());
    entry_->resizes.push_back({operand, now.sizes().vec(), now.strides().vec()});
  }

  const c10::OperatorHandle& op_;
  const Call& call_;
  const Placeholders& placeholders_;
  std::unique_ptr<Entry> entry_ = std::make_unique<Entry>();
  std::vector<GraphResult> results_;  // new tensors, then written slots
};

}  // namespace

void SetDecomposeHook(DecomposeHook hook) { decompose_hook = hook; }

std::unique_ptr<Entry> BuildDecomposedEntry(const c10::OperatorHandle& op, const Call& call, bool* op_by_op) {
  if (!decompose_hook || IsInProgress(op)) return nullptr;
  PhaseTimer timer(Phase::kDecompose);
  InProgress guard(op);
  BelowAutograd below;
  runtime::Capture capture;
  Placeholders placeholders(call);
  Stack results = placeholders.stack;
  try {
    if (!decompose_hook(op, &results)) return nullptr;
    return Finisher(op, call, placeholders).Finish(std::move(capture.graph), results);
  } catch (const c10::NotImplementedError&) {
    // Something in it needs the data, or the host.
    *op_by_op = runtime::Capture::Current() == &capture;
    return nullptr;
  }
}

void DecomposeOpByOp(const c10::OperatorHandle& op, Stack* stack) {
  InProgress guard(op);
  BelowAutograd below;
  TORCH_CHECK_NOT_IMPLEMENTED(decompose_hook(op, stack), op.operator_name(), ": its decomposition is gone");
}

}  // namespace tpu::aten
