// The generic boxed kernel: one instance per operator serves every call of it.
//
// Hot path: read the call, find its entry, collect the slots' Values, record, wrap. Only a miss runs PyTorch's meta kernel,
// a lowering or a decomposition (entry.cc).
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aten/call.h"
#include "aten/schema_plan.h"
#include "runtime/op.h"

namespace tpu::aten {

// A new tensor among the results.
struct OutputSpec {
  c10::ScalarType dtype;
  std::vector<int64_t> sizes, strides;
  bool contiguous;
};

// One key's worth of an operator.
struct Entry {
  enum class Path { kRecord, kOpByOp, kFunctional, kHost } path = Path::kRecord;
  runtime::OpPtr op;
  std::vector<OutputSpec> outputs;  // op outputs [0, outputs.size())
  std::vector<int> writes;          // then: the tensor operand whose slot takes op output outputs.size() + i
  // Per return: new tensors (in order), an argument, or nothing (undefined).
  struct Return {
    enum class Kind : uint8_t { kTensor, kList, kUndefined, kArgument, kConstant } kind;
    int index = 0;         // kTensor, kList: first output; kArgument: the argument
    int count = 0;         // kList
    c10::IValue constant;  // kConstant: a number that the shapes decide
  };
  std::vector<Return> returns;
  // out= arguments that the op resizes first: tensor operand and new geometry.
  struct Resize {
    int tensor;
    std::vector<int64_t> sizes, strides;
  };
  std::vector<Resize> resizes;
  // How scalar operands become Values: those of a list are one number if all are equal, else packed into an array.
  struct ScalarGroup {
    int first, count;
    bool list;
    runtime::TypePtr type;  // 0-dim, or 1-D of `count`
  };
  std::vector<ScalarGroup> scalar_groups;
  std::vector<c10::Warning> warnings;            // given on each call
  std::optional<c10::ScalarType> holds_numbers;  // the type that must be able to hold each scalar (kNumbersFit)
};

class OpKernel final : public c10::OperatorKernel {
 public:
  explicit OpKernel(const c10::OperatorHandle& op);
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  // As operator(), for kernels that prepare the stack themselves.
  void Run(torch::jit::Stack* stack);

 private:
  bool bakes_scalars() const { return plan_.match.lowering == nullptr; }
  // Whether calls that differ from this one only in where their views begin have been seen so often that another program
  // for a place is not worth it.
  bool IsMoving(const Call& call, c10::ArrayRef<c10::IValue> arguments);

  c10::OperatorHandle handle_;
  SchemaPlan plan_;
  CallTable<Entry> table_;
  CallTable<std::atomic<int>> places_;  // per call, apart from places: how many of them it has an entry for
};

// The kernel of an operator; made on first use, alive as long as the process.
OpKernel& KernelFor(const c10::OperatorHandle& op);
// Calls the generic kernel of "aten::name.overload" on a stack of arguments and leaves the results there.
void CallKernel(const char* name, const char* overload, torch::jit::Stack* stack);

// Raises unless `argument` is an out= one: an operation in place keeps its tensor's shape. (Some meta kernels and
// decompositions written in Python resize it.)
void CheckMayResize(const c10::OperatorHandle& op, int argument, const at::Tensor& tensor, c10::IntArrayRef sizes);

// The miss path (entry.cc).
std::unique_ptr<Entry> BuildEntry(const c10::OperatorHandle& op, const SchemaPlan& plan, const Call& call);

}  // namespace tpu::aten
