#include "aten/kernel.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>

#include <cstring>
#include <unordered_map>

#include "aten/decomposition.h"
#include "aten/errors.h"
#include "aten/functional_form.h"
#include "aten/generator.h"
#include "aten/host_fallback.h"
#include "aten/moving_views.h"
#include "aten/tensor.h"
#include "runtime/recorder.h"

namespace tpu::aten {
namespace {

using torch::jit::Stack;

template <typename T>
void Append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void AppendScalar(std::string& bytes, const c10::Scalar& s, DType dtype) {
  switch (dtype) {
    case DType::kBool: return Append<uint8_t>(bytes, s.toBool());
    case DType::kI64:
      return Append<int64_t>(bytes, s.isFloatingPoint() ? static_cast<int64_t>(s.toDouble()) : s.toLong());
    case DType::kU64: return Append<uint64_t>(bytes, s.toUInt64());
    case DType::kF32: return Append<float>(bytes, static_cast<float>(s.toDouble()));
    case DType::kF64: return Append<double>(bytes, s.toDouble());
    case DType::kC64: return Append<c10::complex<float>>(bytes, static_cast<c10::complex<float>>(s.toComplexDouble()));
    case DType::kC128: return Append<c10::complex<double>>(bytes, s.toComplexDouble());
    default: TORCH_INTERNAL_ASSERT(false, "tpu: no scalar operand has type ", std::string(Name(dtype)));
  }
}

runtime::ValuePtr ScalarValue(const Call& call, const Entry::ScalarGroup& group) {
  std::string bytes;
  const int count = group.type->dims.empty() ? 1 : group.count;
  for (int i = 0; i < count; ++i) AppendScalar(bytes, call.scalars[group.first + i].value, group.type->dtype);
  // A list of scalars (a step's bias corrections) seldom recurs; a single one mostly does.
  if (group.list) return c10::make_intrusive<runtime::Value>(*call.device, group.type, std::move(bytes));
  return call.device->HostConstant(group.type, std::move(bytes));
}

// Raises, in PyTorch's words, for a number that `type` cannot hold.
void CheckFits(const c10::Scalar& number, c10::ScalarType type) {
  AT_DISPATCH_V2(type, "number", AT_WRAP([&] { number.to<scalar_t>(); }), AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX),
                 AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), AT_EXPAND(AT_FLOAT8_TYPES), at::kBool, at::kHalf,
                 at::kBFloat16);
}

using Outputs = c10::SmallVector<at::Tensor, 2>;

// The new tensors, without their Values. They come before the program is submitted: memory that the device has not is
// refused while nothing has run.
Outputs MakeOutputs(runtime::Device& device, const Entry& entry) {
  Outputs outputs;
  for (const OutputSpec& spec : entry.outputs) {
    outputs.push_back(spec.contiguous ? EmptyContiguous(device, spec.sizes, spec.dtype)
                                      : EmptyStrided(device, spec.sizes, spec.strides, spec.dtype));
  }
  return outputs;
}

// What the call returns, by the entry.
std::vector<c10::IValue> MakeReturns(const Call& call, const Entry& entry, Outputs outputs) {
  std::vector<c10::IValue> returns;
  returns.reserve(entry.returns.size());
  for (const Entry::Return& r : entry.returns) {
    switch (r.kind) {
      case Entry::Return::Kind::kTensor: returns.emplace_back(std::move(outputs[r.index])); break;
      case Entry::Return::Kind::kUndefined: returns.emplace_back(at::Tensor()); break;
      case Entry::Return::Kind::kArgument: returns.push_back(call.arguments[r.index]); break;
      case Entry::Return::Kind::kConstant: returns.push_back(r.constant); break;
      case Entry::Return::Kind::kList: {
        c10::List<at::Tensor> list;
        list.reserve(r.count);
        for (int i = 0; i < r.count; ++i) list.push_back(std::move(outputs[r.index + i]));
        returns.emplace_back(std::move(list));
        break;
      }
    }
  }
  return returns;
}

void ApplyResizes(const Call& call, const Entry& entry) {
  for (const Entry::Resize& resize : entry.resizes) {
    const at::Tensor& tensor = *call.tensors[resize.tensor].tensor;
    at::native::resize_output_check(tensor, resize.sizes);  // warns
    const size_t needed = at::detail::computeStorageNbytes(resize.sizes, resize.strides, tensor.itemsize());
    GrowStorage(*tensor.storage().unsafeGetStorageImpl(), needed);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(resize.sizes, resize.strides);
  }
}

std::vector<c10::IValue> RecordCall(const Call& call, const Entry& entry) {
  if (entry.holds_numbers) {
    for (const ScalarOperand& scalar : call.scalars) CheckFits(scalar.value, *entry.holds_numbers);
  }
  for (const c10::Warning& warning : entry.warnings) c10::warn(warning);
  ApplyResizes(call, entry);
  Outputs outputs = MakeOutputs(*call.device, entry);
  std::vector<runtime::ValuePtr> inputs;
  inputs.reserve(call.tensors.size() + entry.scalar_groups.size() + 1);
  for (const TensorOperand& operand : call.tensors) {
    if (operand.value) inputs.push_back(operand.value);
  }
  for (const Entry::ScalarGroup& group : entry.scalar_groups) inputs.push_back(ScalarValue(call, group));
  std::string rng;
  if (entry.op->rng_words() > 0 && !runtime::Capture::Current()) {
    rng = NextState(call.generator, static_cast<c10::DeviceIndex>(call.device->index()), entry.op->rng_words());
  }
  const runtime::Recorded values =
      ValueOrRaise(runtime::Record(*call.device, entry.op, std::move(inputs), std::move(rng)));
  for (size_t i = 0; i < outputs.size(); ++i) SlotOf(outputs[i]).Set(values[i]);
  for (size_t i = 0; i < entry.writes.size(); ++i) {
    Write(*call.tensors[entry.writes[i]].tensor, values[outputs.size() + i]);
  }
  return MakeReturns(call, entry, std::move(outputs));
}

}  // namespace

OpKernel::OpKernel(const c10::OperatorHandle& op) : handle_(op), plan_(MakePlan(op.schema())) {}

bool OpKernel::IsMoving(const Call& call, c10::ArrayRef<c10::IValue> arguments) {
  constexpr int kEnoughPlaces = 4;
  if (!MovingViews::CanMove(call)) return false;
  Call any_place;
  ReadCall(plan_, arguments, bakes_scalars(), &any_place, /*places=*/false);
  std::atomic<int>* seen = places_.Find(any_place.key);
  if (!seen) seen = places_.Insert(any_place.key, std::make_unique<std::atomic<int>>(0));
  return seen->fetch_add(1, std::memory_order_relaxed) >= kEnoughPlaces;
}

void OpKernel::operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) { Run(stack); }

void OpKernel::Run(Stack* stack) {
  const size_t count = plan_.arguments.size();
  std::vector<c10::IValue> results;
  Entry::Path path;
  {
    Call call;
    const auto arguments = torch::jit::last(*stack, count);
    ReadCall(plan_, arguments, bakes_scalars(), &call);
    Entry* entry = table_.Find(call.key);
    if (!entry && IsMoving(call, arguments)) {
      MovingViews views(call);
      Stack dense = views.Arguments();
      Run(&dense);
      results = views.Finish(std::move(dense));
      torch::jit::drop(*stack, count);
      stack->insert(stack->end(), std::make_move_iterator(results.begin()), std::make_move_iterator(results.end()));
      return;
    }
    if (!entry) entry = table_.Insert(call.key, BuildEntry(handle_, plan_, call));
    path = entry->path;
    if (path == Entry::Path::kRecord) {
      results = RecordCall(call, *entry);
    }
  }
  if (path == Entry::Path::kOpByOp) return DecomposeOpByOp(handle_, stack);
  if (path == Entry::Path::kFunctional) return CallFunctionalForm(handle_, stack);
  if (path == Entry::Path::kHost) return HostFallback(handle_, stack);
  torch::jit::drop(*stack, count);
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

OpKernel& KernelFor(const c10::OperatorHandle& op) {
  static std::mutex mutex;  // guards kernels
  static auto& kernels = *new std::unordered_map<c10::OperatorName, std::unique_ptr<OpKernel>>;
  std::lock_guard lock(mutex);
  auto& kernel = kernels[op.operator_name()];
  if (!kernel) kernel = std::make_unique<OpKernel>(op);
  return *kernel;
}

void CallKernel(const char* name, const char* overload, Stack* stack) {
  KernelFor(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload)).Run(stack);
}

}  // namespace tpu::aten
