#include "runtime/window.h"

#include <algorithm>
#include <atomic>

#include "base/hash.h"
#include "runtime/device.h"
#include "runtime/program.h"
#include "runtime/recorder.h"
#include "runtime/stream.h"

namespace tpu::runtime {
namespace {

// Results recorded and not yet run, as a share of the device's memory: what they take their inputs from is kept.
constexpr int64_t kMemoryShare = 4;
constexpr int64_t kManyBytes = int64_t{64} << 20;  // less is not looked at
constexpr size_t kMaxClusters = 4096;
constexpr int64_t kLargeUpdateBytes = int64_t{4} << 20;

std::atomic<CompilePolicy> compile_policy{CompilePolicy::kBackground};
std::atomic<std::chrono::milliseconds> idle_time{std::chrono::milliseconds(20)};

// Of results that no tensor held when their program was made. Only a thread that races another can meet one.
const std::shared_ptr<const Status>& Unwanted() {
  static const auto& status = *new std::shared_ptr<const Status>(std::make_shared<const Status>(
      Code::kInvalidArgument, "a tensor was overwritten by one thread while another used it; order the two"));
  return status;
}

const char* Name(Cluster::Choice choice) {
  switch (choice) {
    case Cluster::Choice::kHit: return "hit";
    case Cluster::Choice::kCompiling: return "compiling";
    case Cluster::Choice::kStarted: return "compile";
    case Cluster::Choice::kFirstSight: return "first sight";
    case Cluster::Choice::kFailed: return "failed";
  }
  return "";
}

}  // namespace

FuseOptions GetFuseOptions() { return {compile_policy.load(), idle_time.load()}; }

void SetFuseOptions(FuseOptions options) {
  compile_policy = options.compile;
  idle_time = options.idle;
}

void Window::Add(const OpPtr& op, std::vector<ValuePtr> inputs, const std::vector<ValuePtr>& outputs) {
  device_.WaitForRoom();
  Recording::Node node{op, std::move(inputs), {}, Explain::Line()};
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (op->alias()[i] < 0) node.outputs.push_back(outputs[i]);
  }
  const int64_t stream = CurrentStream(device_.index());
  const uint32_t line = node.line;
  std::lock_guard lock(mutex_);
  if (IsBoundary(*op)) Locked(FlushReason::kSize, line);
  if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) streams_.push_back(stream);
  recording_.Append(std::move(node));
  last_added_ = std::chrono::steady_clock::now();
  for (size_t cut : cut_points_.Add(op->content())) Cut(cut, line);
  if (recording_.produced_bytes() > kManyBytes &&
      recording_.produced_bytes() > device_.memory().limit_bytes / kMemoryShare) {
    Locked(FlushReason::kMemory, line);
  }
  empty_.store(recording_.empty(), std::memory_order_relaxed);
}

// An update of many tensors at once, as by an optimizer's _foreach_ operations, ends an iteration of a training loop: cut
// there, the second one is already as all later ones. A large update begins a program too: with what makes the gradients, or
// uses the parameters, the CPU plugin fuses it into loops that read across the memory's order, once for each use
// (ResNet-18, 11 million parameters: 220 ms a step instead of 120).
bool Window::IsBoundary(const Op& op) {
  const std::string_view name = op.name();
  const bool multi_tensor = name.starts_with("aten::_foreach_") || name.starts_with("aten::_fused_");
  if (!multi_tensor) return std::exchange(update_, Update::kNone) != Update::kNone;
  if (op.replaces().empty()) return false;
  const Update size =
      update_ == Update::kLarge || op.output_bytes() >= kLargeUpdateBytes ? Update::kLarge : Update::kSmall;
  return std::exchange(update_, size) != size && size == Update::kLarge;
}

bool Window::Has(Value& value) {
  std::lock_guard lock(mutex_);
  return value.place().produced && value.place().recording == recording_.id();
}

void Window::Flush(FlushReason reason) {
  const uint32_t line = Explain::Line();
  device_.WaitForRoom();
  std::lock_guard lock(mutex_);
  Locked(reason, line);
}

void Window::FlushIdle() {
  const auto idle = GetFuseOptions().idle;
  std::lock_guard lock(mutex_);
  if (idle.count() == 0 || std::chrono::steady_clock::now() - last_added_ < idle) return;
  Locked(FlushReason::kIdle, 0);
}

void Window::Locked(FlushReason reason, uint32_t line) {
  cut_points_.Reset();
  position_ = 0;
  if (recording_.empty()) return;
  Run(recording_, reason, line, 0);
  recording_ = Recording();
  streams_.clear();
  empty_.store(true, std::memory_order_relaxed);
}

// Runs the ops before position `end` and keeps the others.
void Window::Cut(size_t end, uint32_t line) {
  const size_t count = end - position_;
  std::vector<Recording::Node> nodes = std::move(recording_.nodes());
  Recording head, rest;
  for (size_t i = 0; i < nodes.size(); ++i) (i < count ? head : rest).Append(std::move(nodes[i]));
  position_ = end;
  recording_ = std::move(rest);
  Run(head, FlushReason::kSize, line, recording_.id());
}

Cluster& Window::Find(const Recording& recording) {
  const uint64_t hash = HashWords(recording.key());
  auto [begin, end] = clusters_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (it->second->key() == recording.key()) return *it->second;
  }
  // Shapes that never come again would fill it.
  if (clusters_.size() >= kMaxClusters) std::erase_if(clusters_, [](const auto& c) { return !c.second->recurs(); });
  return *clusters_.emplace(hash, std::make_unique<Cluster>(recording))->second;
}

void Window::Run(Recording& recording, FlushReason reason, uint32_t line, uint64_t rest) {
  const auto begin = std::chrono::steady_clock::now();
  LiveSet live(recording.produced().size());
  const auto wanted = [&](Value& value) { return value.held() || (rest != 0 && value.place().recording == rest); };
  for (size_t i = 0; i < recording.produced().size(); ++i) {
    if (wanted(*recording.produced()[i])) live.Insert(i);
  }
  const auto& nodes = recording.nodes();
  Cluster::Variant* variant = nullptr;
  const char* how = live.empty() ? "nothing wanted" : "one op";
  if (!live.empty() && nodes.size() > 1) {
    std::vector<bool> dead;
    for (Value* value : recording.taken()) dead.push_back(!wanted(*value));
    Cluster::Choice choice;
    Cluster& cluster = Find(recording);
    variant =
        cluster.Choose(device_.client(), live, dead, GetFuseOptions().compile, reason == FlushReason::kIdle, &choice);
    how = Name(choice);
    if (choice == Cluster::Choice::kStarted && Explain::enabled()) Explain::Add(cluster.Describe(nodes.front().line));
  }
  FlushRecord record;
  if (Explain::enabled()) {
    record = {reason,
              line,
              nodes.front().line,
              static_cast<int64_t>(nodes.size()),
              how,
              HashWords(recording.key()),
              nodes.front().op->name(),
              nodes.back().op->name()};
  }
  if (live.empty()) {
    for (Value* value : recording.produced()) value->Fail(Unwanted());
  } else if (variant) {
    RunFused(recording, *variant);
  } else {
    RunOneByOne(recording);
  }
  if (record.ops > 0) {
    record.host_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    Explain::Add(std::move(record));
  }
}

void Window::RunFused(Recording& recording, Cluster::Variant& variant) {
  Task task;
  task.program = variant.program;
  task.name = variant.program->name();
  task.inputs.reserve(recording.taken().size() + recording.packs().size());
  for (Value* value : recording.taken()) task.inputs.push_back(ValuePtr::reclaim_copy(value));
  variant.packs.resize(recording.packs().size());
  for (size_t i = 0; i < recording.packs().size(); ++i) {
    const Pack& pack = recording.packs()[i];
    ValuePtr& last = variant.packs[i];
    if (!last || last->host_bytes() != pack.bytes) {
      last = c10::make_intrusive<Value>(device_, std::make_shared<Type>(Type{pack.dtype, {pack.count}}), pack.bytes);
    }
    task.inputs.push_back(last);
  }
  for (size_t i = 0; i < recording.produced().size(); ++i) {
    Value* value = recording.produced()[i];
    if (variant.live.Contains(i)) {
      task.outputs.push_back(ValuePtr::reclaim_copy(value));
    } else {
      value->Fail(Unwanted());
    }
  }
  recording.nodes().clear();  // what only the task refers to now gives its memory to a result
  Submit(std::move(task));
}

void Window::RunOneByOne(Recording& recording) {
  for (Recording::Node& node : recording.nodes()) {
    Task task;
    task.program = node.op->program(device_.client());
    task.name = task.program->name();
    task.inputs = std::move(node.inputs);
    task.outputs = std::move(node.outputs);
    Submit(std::move(task));
  }
}

void Window::Submit(Task task) {
  const Sequence sequence = device_.Enqueue(std::move(task));
  for (int64_t stream : streams_) AdvanceStream(device_.index(), stream, sequence);
  CountRun();
}

}  // namespace tpu::runtime
