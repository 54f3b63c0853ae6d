#include "aten/functional_form.h"

#include <ATen/native/Resize.h>

#include <optional>

#include "aten/meta.h"

namespace tpu::aten {
namespace {

using c10::Argument;
using c10::FunctionSchema;
using c10::IValue;

bool IsWritten(const Argument& argument) { return argument.alias_info() && argument.alias_info()->isWrite(); }

bool IsOut(const Argument& argument) { return argument.kwarg_only() && IsWritten(argument); }

std::vector<std::string> FunctionalOverloads(const std::string& overload) {
  if (overload == "out") return {"", "Tensor"};
  if (overload.ends_with("_out")) return {overload.substr(0, overload.size() - 4)};
  return {overload};
}

// What a factory takes from out= instead.
bool IsOption(const std::string& name) {
  return name == "dtype" || name == "layout" || name == "device" || name == "pin_memory";
}

// The schema without what is written, in the same order; a factory's options may come after.
bool Fits(const FunctionSchema& functional, const FunctionSchema& schema) {
  size_t next = 0;
  for (const Argument& argument : schema.arguments()) {
    if (IsOut(argument)) continue;
    if (next == functional.arguments().size() || functional.arguments()[next].name() != argument.name()) return false;
    ++next;
  }
  for (; next < functional.arguments().size(); ++next) {
    if (!IsOption(functional.arguments()[next].name())) return false;
  }
  return functional.returns().size() == schema.returns().size();
}

std::optional<c10::OperatorHandle> FunctionalForm(const c10::OperatorHandle& op) {
  const FunctionSchema& schema = op.schema();
  std::string base = schema.name();
  const bool out = std::any_of(schema.arguments().begin(), schema.arguments().end(), IsOut);
  if (!out) {
    if (schema.arguments().empty() || !IsWritten(schema.arguments()[0]) || !base.ends_with('_')) return std::nullopt;
    base.pop_back();
  }
  for (const std::string& overload : FunctionalOverloads(schema.overload_name())) {
    auto found = c10::Dispatcher::singleton().findSchema({base, overload});
    if (found && found->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1) && Fits(found->schema(), schema)) {
      return found;
    }
  }
  return std::nullopt;
}

void CopyTo(const at::Tensor& target, const at::Tensor& result, bool may_resize) {
  TORCH_CHECK(result.scalar_type() == target.scalar_type(), "Expected out tensor to have dtype ", result.scalar_type(),
              ", but got ", target.scalar_type(), " instead");
  TORCH_CHECK(result.device() == target.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ", result.device(),
              " and ", target.device(), "!");
  if (may_resize) at::native::resize_output(target, result.sizes());
  target.copy_(result);
}

}  // namespace

bool HasFunctionalForm(const c10::OperatorHandle& op) { return FunctionalForm(op).has_value(); }

void CallFunctionalForm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  BelowAutograd below;
  const auto& arguments = op.schema().arguments();
  torch::jit::Stack call;
  std::vector<at::Tensor> targets;
  const size_t first = stack->size() - arguments.size();
  bool out = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const IValue& value = (*stack)[first + i];
    out = out || IsOut(arguments[i]);
    if (!IsOut(arguments[i])) call.push_back(value);
    if (IsWritten(arguments[i])) targets.push_back(value.toTensor());
  }
  const c10::OperatorHandle functional = *FunctionalForm(op);
  for (size_t i = call.size(); i < functional.schema().arguments().size(); ++i) {
    const std::string& name = functional.schema().arguments()[i].name();
    call.push_back(name == "dtype"    ? IValue(targets.at(0).scalar_type())
                   : name == "device" ? IValue(targets.at(0).device())
                                      : IValue());
  }
  functional.callBoxed(call);
  for (size_t i = 0; i < targets.size(); ++i) CopyTo(targets[i], call.at(i).toTensor(), out);
  torch::jit::drop(*stack, arguments.size());
  for (at::Tensor& target : targets) stack->emplace_back(std::move(target));
}

}  // namespace tpu::aten
