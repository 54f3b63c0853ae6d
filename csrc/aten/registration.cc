// Registers the generic kernel: for every operator that a lowering serves, and as the fallback for all others.
#include <c10/util/Logging.h>
#include <torch/library.h>

#include "aten/kernel.h"
#include "aten/whole_op.h"

namespace tpu::aten {
namespace {

// Looks its kernel up on the first call: reading 3000 schemas at import would be felt.
class LazyKernel final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    OpKernel* kernel = kernel_.load(std::memory_order_acquire);
    if (!kernel) {
      kernel = &KernelFor(op);
      kernel_.store(kernel, std::memory_order_release);
    }
    (*kernel)(op, keys, stack);
  }

 private:
  std::atomic<OpKernel*> kernel_{nullptr};
};

class Fallback final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    KernelFor(op)(op, keys, stack);
  }
};

// A composite op is differentiated through what it is composed of; a kernel of ours would hide that from autograd, unless
// autograd knows the derivative of the whole.
bool IsImplicit(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

bool HasOwnKernel(const c10::OperatorHandle& op) { return op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1); }

}  // namespace

// Called once at import, after the hand-written kernels are registered. The library objects keep the registrations alive.
void RegisterKernels() {
  using c10::DispatchKey;
  const auto library = [](const char* name, DispatchKey key) -> torch::Library& {
    return *new torch::Library(torch::Library::IMPL, name, key, __FILE__, __LINE__);
  };
  static auto& aten = library("aten", DispatchKey::PrivateUse1);
  static auto& autograd = library("aten", DispatchKey::AutogradPrivateUse1);
  static auto& all = library("_", DispatchKey::PrivateUse1);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || HasOwnKernel(*op) || !FindLowering(op->schema()).lowering) continue;
    auto kernel = torch::CppFunction::makeFromBoxedFunctor(std::make_unique<LazyKernel>());
    if (!IsImplicit(*op)) {
      aten.impl(c10::toString(name).c_str(), std::move(kernel));
    } else if (CanBeWhole(*op)) {
      RegisterWhole(aten, autograd, *op, std::move(kernel));
    }
  }
  all.fallback(torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Fallback>()));
}

}  // namespace tpu::aten
