#include "runtime/device.h"

#include <algorithm>
#include <chrono>

#include "runtime/platform.h"
#include "runtime/program.h"
#include "runtime/recorder.h"
#include "runtime/stream.h"
#include "runtime/window.h"

namespace tpu::runtime {
namespace {

// In flight at most; recording then waits. Results are allocated when they are computed, not when they are recorded, so
// the byte limit only has to bound what a long queue keeps alive.
constexpr size_t kMaxQueued = 2048;
constexpr int64_t kMaxQueuedBytes = int64_t{1} << 30;
// Programs handed to PJRT and not yet complete. On the CPU plugin a run-ahead chain of large results is several times
// slower than an awaited one, since each result then touches fresh memory; small ones gain by not being awaited.
constexpr size_t kMaxExecuting = 32;
constexpr int64_t kMaxExecutingBytesCpu = int64_t{1} << 20;
// An idle submission thread spins this long before it sleeps: a futex wake-up costs more than a small program.
constexpr auto kSpin = std::chrono::microseconds(40);
constexpr auto kPoll = std::chrono::milliseconds(50);
constexpr size_t kMaxConstants = 4096;

WaitHooks wait_hooks;  // set once at import, before any wait

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

template <typename Predicate>
bool SpinUntil(const Predicate& done) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      Pause();
    }
    std::this_thread::yield();  // the plugin's own threads may want this core
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

int64_t OutputBytes(const Task& task) {
  int64_t bytes = 0;
  for (const ValuePtr& v : task.outputs) bytes += hlo::NumElements(v->type().dims) * ItemSize(v->type().dtype);
  return bytes;
}

}  // namespace

void SetWaitHooks(WaitHooks hooks) { wait_hooks = hooks; }

ReleaseGuard::ReleaseGuard() : state_(wait_hooks.release ? wait_hooks.release() : nullptr) {}

ReleaseGuard::~ReleaseGuard() {
  if (wait_hooks.reacquire) wait_hooks.reacquire(state_);
}

Device::Device(std::shared_ptr<pjrt::Client> client, const pjrt::Device& device, int index)
    : client_(std::move(client)),
      pjrt_device_(&device),
      index_(index),
      window_(std::make_unique<Window>(*this)),
      stream_externals_(std::make_unique<ExternalList[]>(kStreamCount)),
      thread_([this] { Loop(); }) {}

Device::~Device() { Shutdown(); }

void Device::Shutdown() {
  window_->Flush(FlushReason::kSynchronize);
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  progress_.notify_all();
  if (thread_.joinable()) thread_.join();
}

template <typename Predicate>
void Device::WaitUntil(const Predicate& done) {
  // In a forked child no other thread makes progress.
  if (done() || Platform::InForkedChild() || SpinUntil(done)) return;
  ReleaseGuard release;
  waiters_.fetch_add(1);
  struct Leave {
    std::atomic<int>& n;
    ~Leave() { n.fetch_sub(1); }
  } leave{waiters_};
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (progress_.wait_for(lock, kPoll, done)) return;
    }
    if (wait_hooks.poll) wait_hooks.poll();
  }
}

Status Device::CheckUsable() const {
  if (Platform::InForkedChild()) return Platform::ForkedError();
  if (!stopping_.load(std::memory_order_relaxed)) return {};
  return {Code::kUnavailable, "tpu:" + std::to_string(index_) +
                                  " was shut down, as the interpreter is exiting. "
                                  "Do the device's work before that."};
}

Sequence Device::Submit(Task task) {
  WaitForRoom();
  return Enqueue(std::move(task));
}

void Device::WaitForRoom() {
  if (queued_.load(std::memory_order_relaxed) >= kMaxQueued ||
      in_flight_bytes_.load(std::memory_order_relaxed) > kMaxQueuedBytes) {
    WaitUntil([this] { return queued_.load() < kMaxQueued / 2 && in_flight_bytes_.load() <= kMaxQueuedBytes / 2; });
  }
}

Sequence Device::Enqueue(Task task) {
  const int64_t bytes = OutputBytes(task);
  Sequence sequence;
  bool wake;
  {
    std::unique_lock lock(mutex_);
    if (stopping_) {
      lock.unlock();
      Fail(task, CheckUsable());
      return last_submitted();
    }
    sequence = submitted_.load(std::memory_order_relaxed) + 1;
    queue_.push_back({std::move(task), sequence, bytes});
    queued_.fetch_add(1, std::memory_order_release);
    in_flight_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    submitted_.store(sequence, std::memory_order_release);
    wake = sleeping_;
  }
  if (wake) work_.notify_one();
  return sequence;
}

void Device::Await(Sequence sequence) {
  WaitUntil([&] { return Completed(sequence); });
}

void Device::AwaitValue(const Value& value) {
  WaitUntil([&] { return value.ready(); });
}

bool Device::Await(const External& external, std::optional<std::chrono::milliseconds> timeout) {
  if (!timeout) {
    WaitUntil([&] { return external.done(); });
    return external.done();
  }
  const auto end = std::chrono::steady_clock::now() + *timeout;
  WaitUntil([&] { return external.done() || std::chrono::steady_clock::now() >= end; });
  return external.done();
}

void Device::NoteProgress() {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // what the waiter tests is written before this
  if (waiters_.load() == 0) return;
  std::lock_guard lock(mutex_);  // as in Finish
  progress_.notify_all();
}

void Device::NoteError(const Status& error) {
  std::lock_guard lock(mutex_);
  if (error_.ok()) error_ = error;
}

void Device::ForgetError(const Status& error) {
  std::lock_guard lock(mutex_);
  if (error_.message() == error.message()) error_ = Status();
}

bool Device::HasToWait(const Task& task) const {
  return std::any_of(task.inputs.begin(), task.inputs.end(),
                     [](const ValuePtr& input) { return input->by_others() && !input->ready(); });
}

Status Device::TakeError() {
  std::lock_guard lock(mutex_);
  return std::exchange(error_, Status());
}

void Device::Finish(Sequence sequence, int64_t bytes) {
  in_flight_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  completed_.store(sequence);
  if (waiters_.load() > 0) {
    std::lock_guard lock(mutex_);  // so that no waiter misses it between its test and its sleep
    progress_.notify_all();
  }
}

void Device::Loop() {
  struct Executing {
    pjrt::Event ready;
    Sequence sequence;
    int64_t bytes;
  };
  std::deque<Executing> executing;
  int64_t executing_bytes = 0;
  std::deque<Queued> batch;
  const int64_t max_bytes = client_->is_cpu() ? kMaxExecutingBytesCpu : kMaxQueuedBytes;
  const auto retire = [&](size_t max_count, int64_t max_bytes) {
    while (executing.size() > max_count || (executing_bytes > max_bytes && !executing.empty())) {
      Executing& oldest = executing.front();
      if (Status s = oldest.ready.Await(); !s.ok()) {
        std::lock_guard lock(mutex_);
        if (error_.ok()) error_ = s;
      }
      executing_bytes -= oldest.bytes;
      Finish(oldest.sequence, oldest.bytes);
      executing.pop_front();
    }
  };
  for (;;) {
    const auto has_work = [this] { return queued_.load(std::memory_order_acquire) > 0; };
    if (!has_work()) {
      retire(0, 0);
      SpinUntil(has_work);
    }
    {
      std::unique_lock lock(mutex_);
      if (queue_.empty()) {
        sleeping_ = true;
        const auto wanted = [this] { return stopping_ || !queue_.empty(); };
        const auto idle = CurrentMode() == Mode::kFuse ? GetFuseOptions().idle : std::chrono::milliseconds(0);
        bool flush = false;
        if (idle.count() == 0) {
          work_.wait(lock, wanted);
        } else {
          flush = !work_.wait_for(lock, idle, wanted);
        }
        sleeping_ = false;
        if (flush) {
          lock.unlock();
          if (!window_->empty()) window_->FlushIdle();
          continue;
        }
        if (queue_.empty()) return;
      }
      batch.swap(queue_);
    }
    while (!batch.empty()) {
      Queued item = std::move(batch.front());
      batch.pop_front();
      // Host work (an event's time stamp) comes after what was submitted before it, not after its dispatch.
      if (item.task.run) retire(0, 0);
      if (HasToWait(item.task)) {
        retire(0, 0);  // nobody learns of what is done from a thread that sleeps
        WaitUntil([&] { return stopping_.load() || !HasToWait(item.task); });
      }
      pjrt::Event ready = Run(item.task);
      item.task = Task();  // lets go of inputs before completion is announced
      queued_.fetch_sub(1, std::memory_order_release);
      executing.push_back({std::move(ready), item.sequence, item.bytes});
      executing_bytes += item.bytes;
      retire(kMaxExecuting, max_bytes);
    }
  }
}

pjrt::Event Device::Run(Task& task) {
  pjrt::Event ready;
  Status status = task.run ? task.run() : Status();
  if (status.ok() && task.program) status = RunProgram(task, &ready);
  // A transfer is done when its buffer is there, not when it has been started.
  if (status.ok() && task.run && !task.outputs.empty()) ready = task.outputs.front()->buffer()->ready();
  if (!status.ok()) {
    Fail(task, status);
  } else if (task.done) {
    task.done(status);
  }
  return ready;
}

void Device::Fail(Task& task, const Status& status) {
  std::string message = task.name.empty() ? status.message() : std::string(task.name) + ": " + status.message();
  if (status.code() == Code::kResourceExhausted) message += ". " + DescribeMemory();
  auto error = std::make_shared<const Status>(status.code(), std::move(message));
  for (ValuePtr& output : task.outputs) output->Fail(error);
  {
    std::lock_guard lock(mutex_);
    if (error_.ok()) error_ = *error;
  }
  if (task.done) task.done(status);
}

Status Device::Upload(Value& value) {
  TPU_ASSIGN_OR_RETURN(pjrt::Buffer buffer,
                       client_->FromHost(value.host_bytes().data(), value.type().dtype, value.type().dims,
                                         *pjrt_device_, pjrt::HostSemantics::kDuringCall));
  value.Fulfil(std::move(buffer));
  return {};
}

Status Device::RunProgram(Task& task, pjrt::Event* ready) {
  TPU_ASSIGN_OR_RETURN(pjrt::LoadedExecutable * executable, task.program->Executable());
  thread_local std::vector<const pjrt::Buffer*> arguments;
  thread_local std::vector<int64_t> spared;
  arguments.clear();
  spared.clear();
  for (const ValuePtr& input : task.inputs) {
    if (!input->ready() && !input->host_bytes().empty()) TPU_RETURN_IF_ERROR(Upload(*input));
    const pjrt::Buffer* buffer = input->buffer();
    if (buffer == nullptr) {
      if (input->error()) return *input->error();
      if (input->by_others()) return {Code::kUnavailable, "the program ended before a collective was complete"};
      return {Code::kInternal, "an input was never computed (a tensor from inside a capture used outside it)"};
    }
    arguments.push_back(buffer);
  }
  // Memory may be reused only where this task alone still refers to the value.
  for (auto [parameter, result] : task.program->donations()) {
    if (task.inputs[parameter].use_count() > 1) spared.push_back(parameter);
  }
  const auto is_spared = [&](int64_t p) { return std::find(spared.begin(), spared.end(), p) != spared.end(); };
  TPU_ASSIGN_OR_RETURN(std::vector<pjrt::Buffer> results, executable->Execute(arguments, pjrt_device_, spared));
  for (auto [parameter, result] : task.program->donations()) {
    if (!is_spared(parameter)) task.inputs[parameter]->GiveMemory();
  }
  if (!results.empty()) *ready = results.front().ready();
  for (size_t i = 0; i < task.outputs.size(); ++i) task.outputs[i]->Fulfil(std::move(results.at(i)));
  return {};
}

ValuePtr Device::HostConstant(const TypePtr& type, std::string bytes) {
  std::string key = bytes + static_cast<char>(type->dtype) + static_cast<char>(type->dims.size());
  std::lock_guard lock(constants_mutex_);
  if (auto it = constants_.find(key); it != constants_.end() && it->second->type() == *type) return it->second;
  // Values that change every step (an lr, a step count) would fill it; what recurs comes back at once.
  if (constants_.size() >= kMaxConstants) constants_.clear();
  auto value = c10::make_intrusive<Value>(*this, type, std::move(bytes));
  constants_.insert_or_assign(std::move(key), value);
  return value;
}

}  // namespace tpu::runtime
