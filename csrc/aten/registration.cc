// Registers the generic kernel: for every operator that a lowering serves, and as the fallback for all others.
#include <c10/util/Logging.h>
#include <torch/library.h>

#include "aten/kernel.h"

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

// A composite op is differentiated through what it is composed of; a kernel of ours would hide that from autograd.
bool IsImplicit(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

bool HasOwnKernel(const c10::OperatorHandle& op) { return op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1); }

}  // namespace

// Called once at import, after the hand-written kernels are registered. The library objects keep the registrations alive.
void RegisterKernels() {
  static auto& aten =
      *new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  static auto& all = *new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || HasOwnKernel(*op) || IsImplicit(*op) || !FindLowering(op->schema()).lowering) continue;
    aten.impl(c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<LazyKernel>()));
  }
  all.fallback(torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Fallback>()));
}

}  // namespace tpu::aten
