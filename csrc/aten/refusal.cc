#include "aten/refusal.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <unordered_map>

#include "aten/meta.h"
#include "aten/tensor.h"

namespace tpu::aten {
namespace {

using c10::IValue;

constexpr size_t kMostBytes = size_t{64} << 20;

class SilentHandler final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

// CPU tensors of zeros with the geometry of the device's. Views of one storage stay such: that, too, may be the mistake.
class HostArguments {
 public:
  IValue Of(const IValue& value) {
    if (value.isDevice()) return c10::Device(c10::DeviceType::CPU);
    if (value.isGenerator()) return {};
    return MapTensors(value, [this](const at::Tensor& t) { return Of(t); });
  }

 private:
  at::Tensor Of(const at::Tensor& t) {
    if (!t.defined() || !IsTpu(t)) return t;
    const runtime::Slot& slot = SlotOf(t);
    at::Tensor& bytes = storages_[&slot];
    if (!bytes.defined()) bytes = at::zeros({static_cast<int64_t>(slot.size_bytes())}, at::kByte);
    at::Tensor host = at::zeros({0}, at::TensorOptions().dtype(t.scalar_type()));
    host.set_(bytes.storage(), t.storage_offset(), t.sizes(), t.strides());
    if (t.is_conj()) host._set_conj(true);
    if (t.is_neg()) host._set_neg(true);
    if (t.unsafeGetTensorImpl()->is_wrapped_number()) host.unsafeGetTensorImpl()->set_wrapped_number(true);
    return host;
  }

  std::unordered_map<const runtime::Slot*, at::Tensor> storages_;
};

size_t BytesOf(const Call& call) {
  size_t bytes = 0;
  for (const TensorOperand& operand : call.tensors) {
    bytes += std::min(SlotOf(*operand.tensor).size_bytes(), kMostBytes + 1);
  }
  return bytes;
}

}  // namespace

void RaiseAsOnHost(const c10::OperatorHandle& op, const Call& call) {
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU) || BytesOf(call) > kMostBytes) return;
  SilentHandler silent;
  c10::WarningUtils::WarningHandlerGuard quiet(&silent);
  BelowAutograd below;
  HostArguments host;
  torch::jit::Stack stack;
  for (const IValue& argument : call.arguments) stack.push_back(host.Of(argument));
  try {
    op.callBoxed(stack);
  } catch (const c10::NotImplementedError&) {
    // The CPU has no kernel for it either, which says nothing of the arguments.
  }
}

}  // namespace tpu::aten
