// One call of an operator, read off the stack: its tensors in order, its scalars, its key.
#pragma once

#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <vector>

#include "aten/call_key.h"
#include "aten/schema_plan.h"
#include "runtime/device.h"
#include "runtime/value.h"

namespace tpu::aten {

// A tensor operand that lives on the device. Undefined and absent ones appear in no list.
struct TensorOperand {
  const at::Tensor* tensor;
  runtime::ValuePtr value;  // null: uninitialised
  int argument;
  int slot;  // in a call that writes tensors: the first operand with the same storage; else its own place
};

// A Scalar argument or a 0-dim CPU tensor (`x * 0.37`): run-time data.
struct ScalarOperand {
  c10::Scalar value;
  c10::ScalarType type;  // Bool, Long, Double or ComplexDouble for a Scalar; a CPU tensor's own dtype
  int argument;
};

// Where an operand is to be found.
struct Operand {
  // kTensor, kScalar: `index` into the call's lists. kDefault: argument `index` has its schema's default value.
  enum Kind : uint8_t { kNone, kTensor, kScalar, kDefault } kind = kNone;
  int index = 0;
};

struct Call {
  const SchemaPlan* plan;
  c10::ArrayRef<c10::IValue> arguments;
  c10::SmallVector<TensorOperand, 8> tensors;
  c10::SmallVector<ScalarOperand, 4> scalars;
  // Operands in argument order; those of argument i are [begin[i], begin[i + 1]).
  c10::SmallVector<Operand, 12> operands;
  c10::SmallVector<uint16_t, 16> begin;
  std::optional<at::Generator> generator;
  runtime::Device* device = nullptr;
  CallKey key;

  c10::ArrayRef<Operand> OperandsOf(int argument) const {
    return {operands.data() + begin[argument], operands.data() + begin[argument + 1]};
  }
};

// Whether all have the same type and, to the last bit, the same value; complex ones never.
bool AreEqual(c10::ArrayRef<ScalarOperand> scalars);

// What decides how a tpu tensor is read: dtype, geometry and the type of the Value behind it (null: uninitialised).
// `place`: with where a view begins. `storage_size`: and, for one that is not whole, where its storage ends, which decides
// how it is written.
void AddTensorToKey(CallKey& key, const at::Tensor& tensor, const runtime::Value* value, const runtime::Slot& slot,
                    bool storage_size, bool place = true);

// Reads the arguments. `bake_scalars`: scalar values join the key (an op without a lowering). Raises for operands on
// several devices. `places`: where views begin joins the key, too.
void ReadCall(const SchemaPlan& plan, c10::ArrayRef<c10::IValue> arguments, bool bake_scalars, Call* call,
              bool places = true);

}  // namespace tpu::aten
