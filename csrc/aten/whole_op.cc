#include "aten/whole_op.h"

#include "aten/tensor.h"

namespace tpu::aten {
namespace {

using c10::DispatchKey;

constexpr c10::DispatchKeySet kLookInside({
    DispatchKey::Python,
    DispatchKey::PythonTLSSnapshot,
    DispatchKey::Functionalize,
    DispatchKey::FuncTorchDynamicLayerFrontMode,
    DispatchKey::FuncTorchDynamicLayerBackMode,
    DispatchKey::FuncTorchGradWrapper,
    DispatchKey::FuncTorchBatched,
    DispatchKey::FuncTorchVmapMode,
    DispatchKey::Batched,
    DispatchKey::NestedTensor,
    DispatchKey::Conjugate,
    DispatchKey::Negative,
    DispatchKey::ZeroTensor,
});

bool IsPlain(const at::Tensor& t) {
  if (!t.defined()) return true;
  if (!IsTpu(t) || t.key_set().has_any(kLookInside) || t.layout() != c10::Layout::Strided) return false;
  if (t.is_complex()) return false;  // matmul's formula is for reals
  return !t._fw_grad(/*level=*/0).defined();
}

// At the autograd key: the derivative of the whole, or the composite.
class WholeOrParts final : public c10::OperatorKernel {
 public:
  WholeOrParts(c10::SafeKernelFunction whole, c10::SafeKernelFunction parts)
      : whole_(std::move(whole)), parts_(std::move(parts)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const bool opaque = IsOpaque(keys, torch::jit::last(*stack, op.schema().arguments().size()));
    (opaque ? whole_ : parts_).callBoxed(op, keys, stack);
  }

 private:
  c10::SafeKernelFunction whole_, parts_;
};

}  // namespace

bool IsOpaque(c10::DispatchKeySet keys, c10::ArrayRef<c10::IValue> arguments) {
  if (keys.has_any(kLookInside)) return false;
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor() && !IsPlain(argument.toTensor())) return false;
  }
  return true;
}

bool CanBeWhole(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) &&
         op.hasKernelForDispatchKey(DispatchKey::Autograd);
}

void RegisterWhole(torch::Library& device, torch::Library& autograd, const c10::OperatorHandle& op,
                   torch::CppFunction kernel) {
  const std::string name = c10::toString(op.operator_name());
  // What the dispatcher takes at the autograd key without a kernel of the device's, and with one.
  c10::SafeKernelFunction parts = op.getComputedKernelForDispatchKey(DispatchKey::AutogradPrivateUse1);
  device.impl(name.c_str(), std::move(kernel));
  c10::SafeKernelFunction whole = op.getComputedKernelForDispatchKey(DispatchKey::AutogradPrivateUse1);
  autograd.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(
                                  std::make_unique<WholeOrParts>(std::move(whole), std::move(parts))));
}

}  // namespace tpu::aten
