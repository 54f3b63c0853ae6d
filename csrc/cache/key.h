// What names a compiled program: a list of (name, value), and its fingerprint.
#pragma once

#include <string>
#include <string_view>

#include "hlo/fingerprint.h"

namespace tpu::cache {

struct Key {
  hlo::Fingerprint id;
  std::string fields;  // a line each: why two keys differ can be read
  bool operator==(const Key&) const = default;
};

class KeyBuilder {
 public:
  // `name` without '='. Values that are long or of several lines appear as their size and fingerprint.
  KeyBuilder& Add(std::string_view name, std::string_view value);
  Key Build() const;
  const std::string& fields() const { return fields_; }
  // Starts from fields that another builder has collected.
  explicit KeyBuilder(std::string fields = {}) : fields_(std::move(fields)) {}

 private:
  std::string fields_;
};

}  // namespace tpu::cache
