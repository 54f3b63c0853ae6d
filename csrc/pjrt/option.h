// Named values that cross the PJRT C API: options passed in, attributes read back. Plain values, no ownership.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace tpu::pjrt {

// A create option of a client or topology, e.g. {"cpu_device_count", int64_t{2}}.
using Option = std::variant<std::string, int64_t, bool, float>;
using Options = std::map<std::string, Option>;

// What a plugin, device, topology or executable says about itself.
using Attribute = std::variant<std::string, int64_t, bool, float, std::vector<int64_t>>;
using Attributes = std::map<std::string, Attribute>;

// "name=value", for messages and for cache keys.
std::string ToString(const Attribute& value);

}  // namespace tpu::pjrt
