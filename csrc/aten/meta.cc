#include "aten/meta.h"

#include <ATen/EmptyTensor.h>

#include <atomic>

#include "aten/tensor.h"

namespace tpu::aten {
namespace {

void (*meta_import_hook)() = nullptr;  // set once at import

// A CPU tensor of no dimensions that is only read is a number beside the others, and kernels that check devices would
// have it with them. A wrapped number stays: Python kernels see it as a Python number.
at::Tensor ToMeta(const at::Tensor& tensor, bool written) {
  if (!tensor.defined()) return tensor;
  const bool wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  const bool number = tensor.is_cpu() && tensor.dim() == 0 && !written && !wrapped;
  if (!IsTpu(tensor) && !number) return tensor;
  at::Tensor meta = at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
  if (wrapped) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

c10::IValue ToMeta(const c10::IValue& value, bool written) {
  if (value.isDevice()) return c10::Device(c10::DeviceType::Meta);
  if (value.isGenerator()) return {};
  return MapTensors(value, [written](const at::Tensor& t) { return ToMeta(t, written); });
}

bool HasMetaKernel(const c10::OperatorHandle& op) { return op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta); }

c10::DispatchKeySet HigherKeys() {
  return c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
         c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                              c10::DispatchKey::PreDispatch, c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                              c10::DispatchKey::FuncTorchDynamicLayerBackMode, c10::DispatchKey::Functionalize,
                              c10::DispatchKey::PythonDispatcher});
}

}  // namespace

BelowAutograd::BelowAutograd() : guard_(HigherKeys()) {}

void SetMetaImportHook(void (*hook)()) { meta_import_hook = hook; }

namespace {

class CollectingHandler final : public c10::WarningHandler {
 public:
  explicit CollectingHandler(std::vector<c10::Warning>& warnings) : warnings_(warnings) {}
  void process(const c10::Warning& warning) override {
    if (!warning.msg().starts_with("An output with one or more elements was resized")) warnings_.push_back(warning);
  }

 private:
  std::vector<c10::Warning>& warnings_;
};

// False when the op turns out to have no meta kernel of its own (an overrideable op's default raises).
bool TryMeta(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, MetaResult* result) {
  if (!HasMetaKernel(op)) return false;
  BelowAutograd guard;
  *result = {};
  torch::jit::Stack stack;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* alias = op.schema().arguments()[i].alias_info();
    result->arguments.push_back(ToMeta(arguments[i], alias != nullptr && alias->isWrite()));
    stack.push_back(result->arguments.back());
  }
  CollectingHandler handler(result->warnings);
  c10::WarningUtils::WarningHandlerGuard collecting(&handler);
  try {
    op.callBoxed(stack);
  } catch (const c10::NotImplementedError&) {
    return false;
  }
  result->returns = std::move(stack);
  return true;
}

// Importing twice does no harm; a lock of ours around the interpreter's would.
void ImportFurtherKernels() {
  static std::atomic<bool> done{false};
  if (done.load(std::memory_order_acquire)) return;
  if (meta_import_hook) meta_import_hook();
  done.store(true, std::memory_order_release);
}

}  // namespace

std::optional<MetaResult> RunMeta(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  MetaResult result;
  if (TryMeta(op, arguments, &result)) return result;
  ImportFurtherKernels();
  if (TryMeta(op, arguments, &result)) return result;
  return std::nullopt;
}

}  // namespace tpu::aten
