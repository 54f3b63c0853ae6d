#include "distributed/completion.h"

#include <utility>

#include "runtime/device.h"

namespace tpu::distributed {

Completion::Completion(runtime::Device& device, int parts)
    : external_(std::make_shared<runtime::External>(device)), parts_(parts) {
  device.externals().Add(external_);
}

void Completion::Then(std::function<void()> function) {
  {
    std::lock_guard lock(mutex_);
    if (parts_ > 0) {
      then_.push_back(std::move(function));
      return;
    }
  }
  function();
}

void Completion::AddPart() {
  std::lock_guard lock(mutex_);
  ++parts_;
}

void Completion::Finish(std::shared_ptr<const Status> error, bool news) {
  std::vector<std::function<void()>> then;
  {
    std::lock_guard lock(mutex_);
    if (error && !error_) error_ = std::move(error);
    if (--parts_ > 0) return;
    external_->Finish(error_, news);
    then.swap(then_);
  }
  for (const auto& function : then) function();
}

}  // namespace tpu::distributed
