#include "runtime/external.h"

#include <utility>

#include "runtime/device.h"

namespace tpu::runtime {

void External::Finish(std::shared_ptr<const Status> error, bool news) {
  error_ = std::move(error);
  if (error_ && news) device_->NoteError(*error_);
  done_.store(true, std::memory_order_release);
  device_->NoteProgress();
}

void ExternalList::Add(ExternalPtr external) {
  std::lock_guard lock(mutex_);
  std::erase_if(externals_, [](const ExternalPtr& e) { return e->done(); });
  externals_.push_back(std::move(external));
  count_.store(externals_.size(), std::memory_order_release);
}

void ExternalList::Add(const std::vector<ExternalPtr>& externals) {
  for (const ExternalPtr& external : externals) Add(external);
}

std::vector<ExternalPtr> ExternalList::Running() {
  if (empty()) return {};
  std::lock_guard lock(mutex_);
  std::erase_if(externals_, [](const ExternalPtr& e) { return e->done(); });
  count_.store(externals_.size(), std::memory_order_release);
  return externals_;
}

}  // namespace tpu::runtime
