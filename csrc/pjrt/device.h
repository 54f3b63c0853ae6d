// Devices, of a client or of a topology that exists on paper only.
//
// Ownership: a DeviceDescription or Device belongs to its Client or Topology and lives exactly as long; take no copies,
// keep pointers. Pointers are stable, so they may be compared for identity.
// Threads: immutable after creation; memory_stats() and memories() may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "pjrt/option.h"

struct PJRT_Device;
struct PJRT_DeviceDescription;

namespace tpu::pjrt {

class Plugin;

class DeviceDescription {
 public:
  DeviceDescription(const Plugin* plugin, PJRT_DeviceDescription* description);

  // Unique among all devices of the job.
  int id() const { return id_; }
  int process_index() const { return process_index_; }
  // The vendor's name of the model: "cpu", "TPU v5 lite".
  const std::string& kind() const { return kind_; }
  const std::string& debug_string() const { return debug_string_; }
  // E.g. coords and core_on_chip of a TPU.
  const Attributes& attributes() const { return attributes_; }

 private:
  int id_ = -1;
  int process_index_ = 0;
  std::string kind_;
  std::string debug_string_;
  Attributes attributes_;
};

struct MemoryStats {
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use;
  std::optional<int64_t> num_allocs;
  std::optional<int64_t> largest_alloc_bytes;
  std::optional<int64_t> bytes_limit;
  std::optional<int64_t> bytes_reserved;
  std::optional<int64_t> largest_free_block_bytes;
};

struct Memory {
  int id = -1;
  std::string kind;  // "device", "pinned_host", "unpinned_host"
  std::string debug_string;
  bool is_default = false;
};

class Device {
 public:
  Device(const Plugin* plugin, PJRT_Device* device, PJRT_DeviceDescription* description);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int id() const { return description_.id(); }
  // -1 when the plugin does not tell.
  int local_hardware_id() const { return local_hardware_id_; }
  const std::string& kind() const { return description_.kind(); }
  const std::string& debug_string() const { return description_.debug_string(); }
  const Attributes& attributes() const { return description_.attributes(); }
  const DeviceDescription& description() const { return description_; }

  // kUnimplemented where the plugin keeps no statistics (the CPU plugin).
  Result<MemoryStats> memory_stats() const;
  // The memories that the device can address.
  Result<std::vector<Memory>> memories() const;

  PJRT_Device* get() const { return device_; }

 private:
  const Plugin* plugin_;
  PJRT_Device* device_;
  DeviceDescription description_;
  int local_hardware_id_ = -1;
};

}  // namespace tpu::pjrt
