#include "aten/call.h"

#include <ATen/Context.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "aten/guard.h"
#include "aten/tensor.h"
#include "runtime/recorder.h"

namespace tpu::aten {
namespace {

using c10::IValue;

// What words of a key mean. Tags keep None, 1 and true apart.
constexpr uint64_t kNone = 1, kUninitialised = 2, kWhole = 3, kGeneral = 4, kCpuScalar = 5, kScalarValue = 6,
                   kDefaultScalar = 7;

void AddScalarToKey(CallKey& key, const c10::Scalar& s) {
  if (s.isComplex()) {
    key.AddDouble(s.toComplexDouble().real());
    key.AddDouble(s.toComplexDouble().imag());
  } else if (s.isFloatingPoint()) {
    key.AddDouble(s.toDouble());
  } else {
    key.Add(static_cast<uint64_t>(s.toLong()));
  }
}

[[noreturn]] void RaiseDevices(const Call& call, const at::Tensor& other) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, tpu:",
              call.device->index(), " and ", other.device().str(), "! (when checking arguments of ", call.plan->name,
              ")");
}

class Reader {
 public:
  Reader(Call& call, bool bake_scalars, bool places) : call_(call), bake_scalars_(bake_scalars), places_(places) {}

  void ReadArgument(const ArgumentPlan& plan, const IValue& value, int index) {
    index_ = index;
    switch (plan.role) {
      case Role::kTensor: ReadTensor(value, plan.mutated); break;
      case Role::kTensorList:
        if (value.isNone()) return call_.key.Add(~uint64_t{0});
        call_.key.Add(value.toListRef().size());
        for (const IValue& element : value.toListRef()) ReadTensor(element, plan.mutated);
        break;
      case Role::kOptionalTensorList:
        call_.key.Add(value.toListRef().size());
        for (const IValue& element : value.toListRef()) ReadTensor(element, plan.mutated);
        break;
      case Role::kScalar:
        if (value.isNone()) {
          call_.operands.push_back({});
          return call_.key.Add(kNone);
        }
        if (plan.default_scalar && IsDefault(value.toScalar(), *plan.default_scalar)) {
          call_.operands.push_back({Operand::kDefault, index});
          return call_.key.Add(kDefaultScalar);
        }
        ReadScalar(value.toScalar());
        break;
      case Role::kScalarList: {
        const size_t before = call_.scalars.size();
        call_.key.Add(value.toListRef().size());
        for (const IValue& element : value.toListRef()) ReadScalar(element.toScalar());
        call_.key.Add(AreEqual(c10::ArrayRef<ScalarOperand>(call_.scalars).slice(before)));
        break;
      }
      case Role::kAttribute: ReadAttribute(value); break;
      case Role::kGenerator:
        if (!value.isNone()) call_.generator = value.toGenerator();
        break;
      case Role::kIgnored:
        if (value.isDevice()) device_argument_ = value.toDevice();
        call_.key.Add(value.isInt() ? static_cast<uint64_t>(value.toInt())
                                    : kAbsent);  // a memory format decides strides
        break;
    }
  }

  void Finish() {
    if (call_.device) return;
    c10::DeviceIndex index = -1;
    if (device_argument_ && device_argument_->type() == c10::DeviceType::PrivateUse1) index = device_argument_->index();
    call_.device = &DeviceAt(index);
  }

 private:
  static constexpr uint64_t kAbsent = ~uint64_t{0};

  static bool IsDefault(const c10::Scalar& value, const c10::Scalar& normal) {
    return value.isIntegral(false) && normal.isIntegral(false) && value.toLong() == normal.toLong();
  }

  void ReadTensor(const IValue& value, bool mutated) {
    if (value.isNone() || !value.toTensor().defined()) {
      call_.operands.push_back({});
      call_.key.Add(kNone);
      return;
    }
    const at::Tensor& tensor = value.toTensor();
    if (!IsTpu(tensor)) return ReadCpuTensor(tensor);
    runtime::Slot& slot = SlotOf(tensor);
    if (!call_.device) {
      call_.device = &slot.device();
    } else if (call_.device != &slot.device()) {
      RaiseDevices(call_, tensor);
    }
    runtime::ValuePtr v = slot.Get();
    AddTensorToKey(call_.key, tensor, v.get(), slot, mutated, places_);
    const int place = static_cast<int>(call_.tensors.size());
    call_.operands.push_back({Operand::kTensor, place});
    call_.tensors.push_back({&tensor, std::move(v), index_, place});
  }

  // PyTorch lets 0-dim CPU tensors join any device's operations; other devices' tensors may not.
  void ReadCpuTensor(const at::Tensor& tensor) {
    if (tensor.dim() != 0 || !tensor.device().is_cpu()) {
      // An index list may be on the host: the caller has moved it. Anything else is a mistake of the program.
      if (call_.device) RaiseDevices(call_, tensor);
      TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ",
                  tensor.device().str(), " and tpu! (when checking arguments of ", call_.plan->name, ")");
    }
    const c10::ScalarType type = tensor.scalar_type();
    call_.key.Add(kCpuScalar | static_cast<uint64_t>(type) << 8 |
                  uint64_t{tensor.unsafeGetTensorImpl()->is_wrapped_number()} << 32);
    AddScalarOperand(at::_local_scalar_dense(tensor), type);
  }

  void ReadScalar(const c10::Scalar& scalar) {
    call_.key.Add(kScalarValue | static_cast<uint64_t>(scalar.type()) << 8);
    AddScalarOperand(scalar, scalar.type());
  }

  void AddScalarOperand(const c10::Scalar& scalar, c10::ScalarType type) {
    if (bake_scalars_) AddScalarToKey(call_.key, scalar);
    call_.operands.push_back({Operand::kScalar, static_cast<int>(call_.scalars.size())});
    call_.scalars.push_back({scalar, type, index_});
  }

  void ReadAttribute(const IValue& value) {
    CallKey& key = call_.key;
    if (value.isNone()) {
      key.Add(kNone);
    } else if (value.isInt()) {
      key.Add(static_cast<uint64_t>(value.toInt()));
    } else if (value.isBool()) {
      key.Add(value.toBool());
    } else if (value.isDouble()) {
      key.AddDouble(value.toDouble());
    } else if (value.isIntList()) {
      key.AddInts(value.toIntVector());
    } else if (value.isString()) {
      key.AddText(value.toStringRef());
    } else if (value.isDoubleList()) {
      const auto list = value.toDoubleVector();
      key.Add(list.size());
      for (double d : list) key.AddDouble(d);
    } else if (value.isScalar()) {
      key.Add(static_cast<uint64_t>(value.toScalar().type()));
      AddScalarToKey(key, value.toScalar());
    } else if (value.isDevice()) {
      key.Add(static_cast<uint64_t>(value.toDevice().type()));
    } else if (value.isList()) {
      key.Add(value.toListRef().size());
      for (const IValue& element : value.toListRef()) ReadAttribute(element);
    } else {
      TORCH_CHECK_NOT_IMPLEMENTED(false, call_.plan->name, ": an argument of type ", value.tagKind(),
                                  " is not supported on tpu");
    }
    // Tags keep None, 1 and true apart.
    key.Add(value.isNone() ? 0 : value.isInt() ? 1 : value.isBool() ? 2 : value.isDouble() ? 3 : 4);
  }

  Call& call_;
  const bool bake_scalars_, places_;
  int index_ = 0;
  std::optional<c10::Device> device_argument_;
};

}  // namespace

bool AreEqual(c10::ArrayRef<ScalarOperand> scalars) {
  const auto same = [](const c10::Scalar& a, const c10::Scalar& b) {
    if (a.type() != b.type() || a.isComplex()) return false;
    if (!a.isFloatingPoint()) return a.toLong() == b.toLong();
    return std::bit_cast<uint64_t>(a.toDouble()) == std::bit_cast<uint64_t>(b.toDouble());  // -0 is not 0
  };
  return std::all_of(scalars.begin(), scalars.end(), [&](const auto& s) { return same(s.value, scalars[0].value); });
}

void AddTensorToKey(CallKey& key, const at::Tensor& tensor, const runtime::Value* value, const runtime::Slot& slot,
                    bool storage_size, bool place) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const auto dtype = static_cast<uint64_t>(tensor.scalar_type());
  const uint64_t rank = static_cast<uint64_t>(impl.dim());
  const uint64_t flags =
      uint64_t{impl.is_wrapped_number()} << 32 | uint64_t{tensor.is_conj()} << 33 | uint64_t{tensor.is_neg()} << 34;
  if (value && IsWhole(tensor, *value)) {
    key.Add(kWhole | dtype << 8 | rank << 16 | flags);
    for (int64_t s : impl.sizes()) key.Add(static_cast<uint64_t>(s));
  } else {
    key.Add((value ? kGeneral : kUninitialised) | dtype << 8 | rank << 16 | flags);
    for (int64_t s : impl.sizes()) key.Add(static_cast<uint64_t>(s));
    for (int64_t s : impl.strides()) key.Add(static_cast<uint64_t>(s));
    if (place) key.Add(static_cast<uint64_t>(impl.storage_offset()));
    if (value) {
      key.Add(static_cast<uint64_t>(value->type().dtype));
      key.AddInts(value->type().dims);
    }
    if (storage_size) key.Add(slot.size_bytes());
  }
}

namespace {

// Tensors that are views of one storage: each of several writes starts from the one before, and what is written may not
// overlap in part with what is read.
void FindSharedSlots(Call* call) {
  int written = 0;
  for (const TensorOperand& operand : call->tensors) written += call->plan->arguments[operand.argument].mutated;
  if (written == 0 || call->tensors.size() < 2) return;
  bool shared = false;
  if (call->tensors.size() <= 4) {
    for (int i = 1; i < static_cast<int>(call->tensors.size()); ++i) {
      TensorOperand& operand = call->tensors[i];
      for (int j = 0; j < i && operand.slot == i; ++j) {
        if (&SlotOf(*call->tensors[j].tensor) == &SlotOf(*operand.tensor)) operand.slot = j;
      }
      shared = shared || operand.slot != i;
    }
  } else {
    std::unordered_map<const runtime::Slot*, int> first;
    for (int i = 0; i < static_cast<int>(call->tensors.size()); ++i) {
      TensorOperand& operand = call->tensors[i];
      operand.slot = first.emplace(&SlotOf(*operand.tensor), i).first->second;
      shared = shared || operand.slot != i;
    }
  }
  if (!shared) return;
  for (const TensorOperand& operand : call->tensors) call->key.Add(static_cast<uint64_t>(operand.slot));
}

}  // namespace

void ReadCall(const SchemaPlan& plan, c10::ArrayRef<IValue> arguments, bool bake_scalars, Call* call, bool places) {
  call->plan = &plan;
  call->arguments = arguments;
  // The default dtype is what integers divide to. Deterministic mode decides what is refused.
  call->key.Add(static_cast<uint64_t>(runtime::CurrentMode() == runtime::Mode::kDebug) |
                static_cast<uint64_t>(at::globalContext().deterministicAlgorithms()) << 1 |
                static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()) << 8);
  Reader reader(*call, bake_scalars, places);
  for (size_t i = 0; i < arguments.size(); ++i) {
    call->begin.push_back(static_cast<uint16_t>(call->operands.size()));
    reader.ReadArgument(plan.arguments[i], arguments[i], static_cast<int>(i));
  }
  call->begin.push_back(static_cast<uint16_t>(call->operands.size()));
  reader.Finish();
  FindSharedSlots(call);
}

}  // namespace tpu::aten
