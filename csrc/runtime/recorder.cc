#include "runtime/recorder.h"

#include <atomic>
#include <cstring>

#include "runtime/platform.h"
#include "runtime/stream.h"

namespace tpu::runtime {
namespace {

std::atomic<Mode> default_mode{Mode::kStrict};
thread_local Capture* current_capture = nullptr;
std::atomic<int64_t> run_count{0};

const TypePtr& CheckType() {
  static const auto& type = *new TypePtr(std::make_shared<Type>(Type{DType::kI64, {2}}));
  return type;
}

std::vector<ValuePtr> MakeOutputs(Device& device, const Op& op, const std::vector<ValuePtr>& inputs) {
  std::vector<ValuePtr> outputs;
  outputs.reserve(op.outputs().size());
  for (size_t i = 0; i < op.outputs().size(); ++i) {
    const int alias = op.alias()[i];
    outputs.push_back(alias >= 0 ? inputs[alias] : c10::make_intrusive<Value>(device, op.outputs()[i]));
  }
  return outputs;
}

Status CheckIndices(Device& device, const Op& op, const std::vector<ValuePtr>& offenders) {
  for (size_t i = 0; i < offenders.size(); ++i) {
    int64_t found[2] = {0, 0};
    TPU_RETURN_IF_ERROR(ReadToHost(device, *offenders[i], found, sizeof found));
    if (found[0] == 0) continue;
    const Op::Check& check = op.checks()[i];
    if (!check.assertion.empty()) return {Code::kInvalidArgument, check.op + ": " + check.assertion};
    return {Code::kOutOfRange, check.op + ": index " + std::to_string(found[1]) + " is out of bounds for dimension " +
                                   std::to_string(check.dim) + ", expected [" + std::to_string(check.lower) + ", " +
                                   std::to_string(check.upper) + ")"};
  }
  return {};
}

}  // namespace

Mode CurrentMode() { return default_mode.load(std::memory_order_relaxed); }
void SetDefaultMode(Mode mode) { default_mode.store(mode, std::memory_order_relaxed); }
int64_t RunCount() { return run_count.load(std::memory_order_relaxed); }

Capture::Capture() : outer_(current_capture) { current_capture = this; }

Capture::~Capture() {
  current_capture = outer_;
  for (auto it = writes.rbegin(); it != writes.rend(); ++it) it->slot->Set(std::move(it->before));
  static const auto& error = *new std::shared_ptr<const Status>(std::make_shared<const Status>(
      Code::kInvalidArgument,
      "a tensor made inside a captured function is read outside it; return it from the function"));
  for (Node& node : graph.nodes) {
    for (ValuePtr& output : node.outputs) {
      if (!output->ready()) output->Fail(error);
    }
  }
}

Capture* Capture::Current() { return current_capture; }

Status ReadToHost(Device& device, Value& value, void* destination, size_t size_bytes) {
  if (!value.ready() && value.host_bytes().size() == size_bytes) {
    std::memcpy(destination, value.host_bytes().data(), size_bytes);
    return {};
  }
  if (current_capture && !value.ready()) {
    return {Code::kUnimplemented,
            "a tensor's data is read (item(), bool(), cpu()) inside a captured function, where it has none yet"};
  }
  if (Platform::InForkedChild()) return Platform::ForkedError();
  device.AwaitValue(value);
  pjrt::Buffer* buffer = value.buffer();
  if (!buffer) {
    Status error = *value.error();
    [[maybe_unused]] Status reported = device.TakeError();  // this is its report
    return error;
  }
  if (size_bytes == 0) return {};
  TPU_RETURN_IF_ERROR(buffer->ready().Await());
  if (device.client().is_cpu()) {
    TPU_ASSIGN_OR_RETURN(const void* data, buffer->UnsafePointer());
    std::memcpy(destination, data, size_bytes);
    return {};
  }
  TPU_ASSIGN_OR_RETURN(pjrt::Event copied, buffer->ToHost(destination, size_bytes));
  return copied.Await();
}

Result<std::vector<ValuePtr>> Record(Device& device, const OpPtr& op, std::vector<ValuePtr> inputs,
                                     std::string rng_bytes) {
  std::vector<ValuePtr> outputs = MakeOutputs(device, *op, inputs);
  if (op->all_alias()) return outputs;
  if (Capture* capture = current_capture) {
    Node node{op, std::move(inputs), outputs, capture->graph.rng_words};
    capture->graph.rng_words += RoundUpToBlock(op->rng_words());
    capture->graph.nodes.push_back(std::move(node));
    return outputs;
  }
  TPU_RETURN_IF_ERROR(device.CheckUsable());
  if (op->rng_words() > 0) inputs.push_back(c10::make_intrusive<Value>(device, RngStateType(), std::move(rng_bytes)));
  Task task;
  task.program = op->program(device.client());
  task.name = op->name();
  task.inputs = std::move(inputs);
  task.outputs.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (op->alias()[i] < 0) task.outputs.push_back(outputs[i]);
  }
  std::vector<ValuePtr> offenders;
  for (size_t i = 0; i < op->checks().size(); ++i) {
    offenders.push_back(c10::make_intrusive<Value>(device, CheckType()));
    task.outputs.push_back(offenders.back());
  }
  const Sequence sequence = device.Submit(std::move(task));
  NoteSubmitted(device, sequence);
  run_count.fetch_add(1, std::memory_order_relaxed);
  if (CurrentMode() == Mode::kDebug) {
    device.Await(sequence);
    if (Status error = device.TakeError(); !error.ok()) return error;
    TPU_RETURN_IF_ERROR(CheckIndices(device, *op, offenders));
  }
  return outputs;
}

}  // namespace tpu::runtime
