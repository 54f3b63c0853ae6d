// Entries kept by functions that another layer gives: how a store in Python is reached.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cache/store.h"

namespace tpu::cache {

// Called from any thread but one that holds the interpreter's lock. `name` is the key's digits.
struct StoreHooks {
  std::function<Result<std::optional<std::string>>(const std::string& name)> read;
  std::function<Status(const std::string& name, const std::string& bytes)> write;
  std::function<void(const std::string& name)> remove;
};
// Opens what is at a URL.
using StoreOpener = std::function<Result<StoreHooks>(const std::string& url)>;
void SetStoreOpener(StoreOpener opener);

// kUnimplemented without an opener.
Result<std::shared_ptr<Store>> OpenHookStore(const std::string& url);

}  // namespace tpu::cache
