#include "runtime/recorder.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

#include "runtime/platform.h"
#include "runtime/stream.h"
#include "runtime/window.h"

namespace tpu::runtime {
namespace {

std::atomic<Mode> default_mode{Mode::kStrict};
thread_local Capture* current_capture = nullptr;
std::atomic<int64_t> run_count{0};

double MicrosecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

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

Status CheckIndices(const Op& op, const std::vector<ValuePtr>& offenders) {
  for (size_t i = 0; i < offenders.size(); ++i) {
    int64_t found[2] = {0, 0};
    TPU_RETURN_IF_ERROR(ReadToHost(*offenders[i], found, sizeof found));
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

void SetDefaultMode(Mode mode) {
  const Mode before = default_mode.exchange(mode);
  Platform* platform = Platform::Opened();
  if (before != Mode::kFuse || mode == Mode::kFuse || !platform || Platform::InForkedChild()) return;
  for (int i = 0; i < platform->device_count(); ++i) Flush(platform->device(i), FlushReason::kMode);
}

int64_t RunCount() { return run_count.load(std::memory_order_relaxed); }
void CountRun() { run_count.fetch_add(1, std::memory_order_relaxed); }

Recorded::Recorded(std::vector<ValuePtr> values) : values_(std::move(values)) {
  for (const ValuePtr& value : values_) value->Hold();
}

Recorded::~Recorded() {
  for (const ValuePtr& value : values_) value->LetGo();
}

void Flush(Device& device, FlushReason reason) {
  if (!device.window().empty()) device.window().Flush(reason);
}

void FlushRecorded(Value& value, FlushReason reason) {
  Window& window = value.device().window();
  if (!value.ready() && !window.empty() && window.Has(value)) window.Flush(reason);
}

void Await(Value& value, FlushReason reason) {
  Device& device = value.device();
  FlushRecorded(value, reason);
  const auto begin = std::chrono::steady_clock::now();
  device.AwaitValue(value);
  if (Explain::enabled()) Explain::AddWait(MicrosecondsSince(begin));
}

Capture::Capture() : outer_(current_capture) { current_capture = this; }

Capture::~Capture() {
  current_capture = outer_;
  for (auto it = writes.rbegin(); it != writes.rend(); ++it) {
    it->slot->Set(it->before);
    if (it->before) it->before->LetGo();
  }
  static const auto& error = *new std::shared_ptr<const Status>(std::make_shared<const Status>(
      Code::kInvalidArgument,
      "a tensor made inside a captured function is read outside it; return it from the function"));
  for (Node& node : graph.nodes) {
    for (ValuePtr& output : node.outputs) {
      if (!output->ready()) output->Fail(error);
    }
  }
}

void Capture::NoteWrite(Slot& slot, std::shared_ptr<const void> keep_alive) {
  ValuePtr before = slot.Get();
  if (before) before->Hold();
  writes.push_back({&slot, std::move(before), std::move(keep_alive)});
}

Capture* Capture::Current() { return current_capture; }

Capture::Pause::Pause() : paused_(std::exchange(current_capture, nullptr)) {}
Capture::Pause::~Pause() { current_capture = paused_; }

Status ReadToHost(Value& value, void* destination, size_t size_bytes) {
  if (!value.ready() && value.host_bytes().size() == size_bytes) {
    std::memcpy(destination, value.host_bytes().data(), size_bytes);
    return {};
  }
  if (current_capture && !value.ready()) {
    return {Code::kUnimplemented,
            "a tensor's data is read (item(), bool(), cpu()) inside a captured function, where it has none yet"};
  }
  if (Platform::InForkedChild()) return Platform::ForkedError();
  Device& device = value.device();
  Await(value, FlushReason::kRead);
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

Result<Recorded> Record(Device& device, const OpPtr& op, std::vector<ValuePtr> inputs, std::string rng_bytes) {
  Recorded recorded(MakeOutputs(device, *op, inputs));
  if (op->all_alias()) return recorded;
  if (Capture* capture = current_capture) {
    Node node{op, std::move(inputs), recorded.values(), 0, nullptr, capture->line};
    if (capture->find_lines && node.line.empty()) node.line = Explain::FindLine();
    if (op->rng_words() > 0) {
      int64_t& words = capture->random ? capture->random->words : capture->graph.rng_words;
      node.rng_offset = words;
      if (capture->random) node.rng = capture->random->state;
      words += RoundUpToBlock(op->rng_words());
    }
    capture->graph.nodes.push_back(std::move(node));
    return recorded;
  }
  TPU_RETURN_IF_ERROR(device.CheckUsable());
  if (op->rng_words() > 0) inputs.push_back(c10::make_intrusive<Value>(device, RngStateType(), std::move(rng_bytes)));
  const Mode mode = CurrentMode();
  // A program of the op's own is wanted at once, or while one for many ops is being compiled.
  if ((mode != Mode::kFuse || GetFuseOptions().compile == CompilePolicy::kBackground) && op->Prepare(device.client()) &&
      Explain::enabled()) {
    Explain::Add(CompileRecord{op->name(), Explain::Line(), 1, op->content(), TypesOf(op->inputs()), {}});
  }
  if (mode == Mode::kFuse) {
    device.window().Add(op, std::move(inputs), recorded.values());
    return recorded;
  }
  Flush(device, FlushReason::kMode);  // recorded before the mode changed
  Task task;
  task.program = op->program(device.client());
  task.name = task.program->name();
  task.inputs = std::move(inputs);
  task.outputs.reserve(op->outputs().size());
  for (size_t i = 0; i < op->outputs().size(); ++i) {
    if (op->alias()[i] < 0) task.outputs.push_back(recorded[i]);
  }
  std::vector<ValuePtr> offenders;
  for (size_t i = 0; i < op->checks().size(); ++i) {
    offenders.push_back(c10::make_intrusive<Value>(device, CheckType()));
    task.outputs.push_back(offenders.back());
  }
  const auto begin = std::chrono::steady_clock::now();
  const Sequence sequence = device.Submit(std::move(task));
  if (Explain::enabled()) {
    const uint32_t line = Explain::Line();
    Explain::Add(FlushRecord{FlushReason::kSubmit, line, line, 1, "one op", op->content(), op->name(), op->name(),
                             MicrosecondsSince(begin), 0});
  }
  NoteSubmitted(device, sequence);
  CountRun();
  if (mode == Mode::kDebug) {
    device.Await(sequence);
    if (Status error = device.TakeError(); !error.ok()) return error;
    TPU_RETURN_IF_ERROR(CheckIndices(*op, offenders));
  }
  return recorded;
}

}  // namespace tpu::runtime
