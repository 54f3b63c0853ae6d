#include "cache/key.h"

namespace tpu::cache {

namespace {
constexpr size_t kLongest = 120;
}

KeyBuilder& KeyBuilder::Add(std::string_view name, std::string_view value) {
  fields_.append(name).append("=");
  if (value.size() > kLongest || value.find('\n') != std::string_view::npos) {
    fields_.append(std::to_string(value.size())).append(":").append(hlo::FingerprintOf(value).Hex());
  } else {
    fields_.append(value);
  }
  fields_.append("\n");
  return *this;
}

Key KeyBuilder::Build() const { return {hlo::FingerprintOf(fields_), fields_}; }

}  // namespace tpu::cache
