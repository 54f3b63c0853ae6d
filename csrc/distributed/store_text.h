// Text in a c10d::Store, and the text of what it throws.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

namespace tpu::distributed {

inline void SetText(c10d::Store& store, const std::string& key, const std::string& text) {
  store.set(key, std::vector<uint8_t>(text.begin(), text.end()));
}
inline std::string GetText(c10d::Store& store, const std::string& key) {
  const std::vector<uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}
// The first line of an exception's text: the rest is a C++ stack.
inline std::string FirstLine(const std::exception& error) {
  const auto* ours = dynamic_cast<const c10::Error*>(&error);
  const std::string text = ours ? ours->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace tpu::distributed
