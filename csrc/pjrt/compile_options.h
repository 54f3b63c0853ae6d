// What a program is compiled with. A plain value; its serialised form is a good part of a cache key.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tpu::pjrt {

using XlaFlag = std::variant<std::string, bool, int64_t, double>;

struct CompileOptions {
  int num_replicas = 1;
  int num_partitions = 1;
  // Compiles for the device of this id, and not portably; not together with device_assignment.
  std::optional<int> device_ordinal;
  // The executable may run on any device, which Execute then names. Only for one replica and one partition; ignored
  // when a device is fixed above or below.
  bool portable = true;
  // XLA debug options by name, without dashes: {"xla_backend_optimization_level", int64_t{1}}.
  std::map<std::string, XlaFlag> xla_flags;
  bool use_spmd = false;
  // Device ids, replica-major: num_replicas * num_partitions of them, or none for the plugin's own choice.
  std::vector<int> device_assignment;
};

// The bytes of an xla.CompileOptionsProto; equal options give equal bytes.
std::string Serialize(const CompileOptions& options);

}  // namespace tpu::pjrt
