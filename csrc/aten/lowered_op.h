// A call of an op that has a lowering, as something that can emit itself: reads through views, the lowering, casts, and
// writes through views. Holds no tensors.
#pragma once

#include <optional>
#include <vector>

#include "aten/call.h"
#include "hlo/view.h"
#include "runtime/op.h"

namespace tpu::aten {

// One call of a lowering: a foreach op makes one per list element.
struct LoweredCall {
  // What fills a parameter: operands, a baked attribute, or the generator.
  struct Source {
    enum class Kind : uint8_t { kOperand, kOperandList, kOptionalOperandList, kAttribute, kOne, kRng } kind;
    std::vector<Operand> operands;
    lowering::Arg attribute;
  };
  const lowering::Lowering* lowering;
  std::vector<Source> sources;
  std::vector<Operand> operands;    // all operands, for promotion
  std::vector<hlo::Type> expected;  // of the functional results; empty when there is no meta kernel
  std::optional<DType> common;      // kPointwise: the type that all operands are promoted to
};

struct LoweredOp {
  struct Tensor {
    hlo::View view;
    DType dtype;
    int input;  // among the op's inputs, or -1: uninitialised
    int slot;   // TensorOperand's
  };
  struct ScalarRef {
    int input;
    int element;  // of a packed list, or -1
  };
  struct Output {
    hlo::View view;
    DType dtype;
    hlo::Ints dims;  // of its Value
  };
  struct Write {
    hlo::View view;
    DType dtype;
    hlo::Ints dims;
    int base_input = -1;
    int slot = 0;
  };
  std::vector<Tensor> tensors;
  std::vector<ScalarRef> scalars;
  std::vector<lowering::Scalar> defaults;  // per argument: the schema's default, where Operand::kDefault refers to it
  std::vector<LoweredCall> calls;
  // The functional results are the new tensors of the schema's returns, then the mutated arguments in order.
  std::vector<bool> result_defined;  // per new tensor
  std::vector<Output> outputs;       // of those defined
  std::vector<Write> writes;
  bool infer_outputs = false;  // no meta kernel: the results are what the lowering makes

  runtime::Emission Emit(hlo::Builder& b, std::span<const hlo::Value> inputs, hlo::Value rng) const;
};

// `element`: the list element of a foreach op, or -1.
LoweredCall MakeLoweredCall(const Call& call, const LoweringMatch& match, int element, std::vector<hlo::Type> expected);

}  // namespace tpu::aten
