#include "distributed/work.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <utility>

#include "distributed/lane.h"
#include "runtime/device.h"
#include "runtime/recorder.h"
#include "runtime/stream.h"

namespace tpu::distributed {

CollectiveWork::CollectiveWork(Description description, CompletionPtr completion, const std::vector<at::Tensor>& inputs,
                               std::vector<at::Tensor> outputs)
    : c10d::Work(description.rank, description.type, description.title, inputs),
      description_(std::move(description)),
      completion_(std::move(completion)),
      outputs_(std::move(outputs)) {
  if (recordFunctionEndCallback_) completion_->Then(std::exchange(recordFunctionEndCallback_, nullptr));
}

std::exception_ptr CollectiveWork::exception() const {
  const auto error = completion_->error();
  if (!error) return nullptr;
  return std::make_exception_ptr(
      c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, error->message()));
}

void CollectiveWork::RaiseIfFailed() const {
  if (std::exception_ptr error = exception()) {
    completion_->external()->device().ForgetError(*completion_->error());
    std::rethrow_exception(error);
  }
}

int CollectiveWork::sourceRank() const {
  completion_->external()->device().Await(*completion_->external(), std::nullopt);
  RaiseIfFailed();
  return completion_->source();
}

void CollectiveWork::synchronize() {
  c10d::Work::synchronize();
  runtime::Device& device = completion_->external()->device();
  if (!completion_->done()) device.externals(runtime::CurrentStream(device.index())).Add(completion_->external());
}

bool CollectiveWork::wait(std::chrono::milliseconds timeout) {
  runtime::Device& device = completion_->external()->device();
  if (timeout != kNoTimeout) {
    const bool done = device.Await(*completion_->external(), timeout);
    if (!done) C10_THROW_ERROR(DistBackendError, "Operation timed out!");
  } else if (description_.blocking || runtime::CurrentMode() == runtime::Mode::kDebug) {
    device.Await(*completion_->external(), std::nullopt);
  }
  synchronize();
  RaiseIfFailed();
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> CollectiveWork::getFuture() {
  std::lock_guard lock(future_mutex_);
  if (future_) return future_;
  const c10::Device device(c10::DeviceType::PrivateUse1,
                           static_cast<c10::DeviceIndex>(completion_->external()->device().index()));
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                     std::vector<c10::Device>{device});
  // The work lives until then, and its tensors are let go on a thread that may wait for Python's lock.
  auto self = std::make_shared<c10::intrusive_ptr<c10d::Work>>(
      c10::intrusive_ptr<c10d::Work>::unsafe_reclaim_from_nonowning(this));
  const auto complete = [future = future_, outputs = outputs_, self] {
    auto* work = static_cast<CollectiveWork*>(self->get());
    if (std::exception_ptr failure = work->exception()) {
      work->completion_->external()->device().ForgetError(*work->completion_->error());
      future->setError(failure);
    } else {
      future->markCompleted(c10::IValue(outputs));
    }
  };
  if (completion_->done()) {
    complete();
  } else {
    completion_->Then([complete]() { CallbackThreads::Run(complete); });
  }
  return future_;
}

}  // namespace tpu::distributed
