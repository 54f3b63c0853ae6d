#include "cache/hook_store.h"

#include <mutex>

namespace tpu::cache {
namespace {

std::mutex opener_mutex;  // guards Opener()
StoreOpener& Opener() {
  static auto& opener = *new StoreOpener;
  return opener;
}

class HookStore : public Store {
 public:
  HookStore(std::string url, StoreHooks hooks) : url_(std::move(url)), hooks_(std::move(hooks)) {}
  Result<std::optional<std::string>> Read(const hlo::Fingerprint& key) override {
    auto bytes = hooks_.read(key.Hex());
    if (!bytes.ok()) return Named(bytes.status());
    return bytes;
  }
  Status Write(const hlo::Fingerprint& key, const std::string& bytes) override {
    return Named(hooks_.write(key.Hex(), bytes));
  }
  void Remove(const hlo::Fingerprint& key) override { hooks_.remove(key.Hex()); }
  const std::string& name() const override { return url_; }

 private:
  Status Named(const Status& status) const {
    return status.ok() ? status : Status(status.code(), url_ + ": " + status.message());
  }
  std::string url_;
  StoreHooks hooks_;
};

}  // namespace

void SetStoreOpener(StoreOpener opener) {
  std::lock_guard lock(opener_mutex);
  Opener() = std::move(opener);
}

Result<std::shared_ptr<Store>> OpenHookStore(const std::string& url) {
  StoreOpener opener;
  {
    std::lock_guard lock(opener_mutex);
    opener = Opener();
  }
  if (!opener) return Status(Code::kUnimplemented, url + ": expected a directory, since nothing here reads URLs");
  TPU_ASSIGN_OR_RETURN(StoreHooks hooks, opener(url));
  return std::shared_ptr<Store>(std::make_shared<HookStore>(url, std::move(hooks)));
}

}  // namespace tpu::cache
