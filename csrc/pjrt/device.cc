#include "pjrt/device.h"

#include "pjrt/call.h"
#include "pjrt/named_value.h"

namespace tpu::pjrt {

// A description that a plugin does not give keeps its default.
DeviceDescription::DeviceDescription(const Plugin* plugin, PJRT_DeviceDescription* description) {
  PJRT_DeviceDescription_Id_Args id{};
  id.device_description = description;
  if (TPU_PJRT_CALL(*plugin, PJRT_DeviceDescription_Id, id).ok()) id_ = id.id;

  PJRT_DeviceDescription_ProcessIndex_Args process{};
  process.device_description = description;
  if (TPU_PJRT_CALL(*plugin, PJRT_DeviceDescription_ProcessIndex, process).ok()) process_index_ = process.process_index;

  PJRT_DeviceDescription_Kind_Args kind{};
  kind.device_description = description;
  if (TPU_PJRT_CALL(*plugin, PJRT_DeviceDescription_Kind, kind).ok()) {
    kind_.assign(kind.device_kind, kind.device_kind_size);
  }
  PJRT_DeviceDescription_DebugString_Args debug{};
  debug.device_description = description;
  if (TPU_PJRT_CALL(*plugin, PJRT_DeviceDescription_DebugString, debug).ok()) {
    debug_string_.assign(debug.debug_string, debug.debug_string_size);
  }
  PJRT_DeviceDescription_Attributes_Args attributes{};
  attributes.device_description = description;
  if (TPU_PJRT_CALL(*plugin, PJRT_DeviceDescription_Attributes, attributes).ok()) {
    attributes_ = FromNamedValues(attributes.attributes, attributes.num_attributes);
  }
}

Device::Device(const Plugin* plugin, PJRT_Device* device, PJRT_DeviceDescription* description)
    : plugin_(plugin), device_(device), description_(plugin, description) {
  PJRT_Device_LocalHardwareId_Args local{};
  local.device = device;
  if (TPU_PJRT_CALL(*plugin, PJRT_Device_LocalHardwareId, local).ok()) local_hardware_id_ = local.local_hardware_id;
}

Result<MemoryStats> Device::memory_stats() const {
  PJRT_Device_MemoryStats_Args args{};
  args.device = device_;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Device_MemoryStats, args));
  auto optional = [](bool is_set, int64_t value) { return is_set ? std::optional(value) : std::nullopt; };
  MemoryStats stats;
  stats.bytes_in_use = args.bytes_in_use;
  stats.peak_bytes_in_use = optional(args.peak_bytes_in_use_is_set, args.peak_bytes_in_use);
  stats.num_allocs = optional(args.num_allocs_is_set, args.num_allocs);
  stats.largest_alloc_bytes = optional(args.largest_alloc_size_is_set, args.largest_alloc_size);
  stats.bytes_limit = optional(args.bytes_limit_is_set, args.bytes_limit);
  stats.bytes_reserved = optional(args.bytes_reserved_is_set, args.bytes_reserved);
  stats.largest_free_block_bytes = optional(args.largest_free_block_bytes_is_set, args.largest_free_block_bytes);
  return stats;
}

Result<std::vector<Memory>> Device::memories() const {
  PJRT_Device_AddressableMemories_Args args{};
  args.device = device_;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Device_AddressableMemories, args));
  PJRT_Device_DefaultMemory_Args standard{};
  standard.device = device_;
  if (!TPU_PJRT_CALL(*plugin_, PJRT_Device_DefaultMemory, standard).ok()) standard.memory = nullptr;

  std::vector<Memory> memories;
  for (size_t i = 0; i < args.num_memories; ++i) {
    Memory& m = memories.emplace_back();
    m.is_default = args.memories[i] == standard.memory;
    PJRT_Memory_Id_Args id{};
    id.memory = args.memories[i];
    TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Memory_Id, id));
    m.id = id.id;
    PJRT_Memory_Kind_Args kind{};
    kind.memory = args.memories[i];
    TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Memory_Kind, kind));
    m.kind.assign(kind.kind, kind.kind_size);
    PJRT_Memory_DebugString_Args debug{};
    debug.memory = args.memories[i];
    TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Memory_DebugString, debug));
    m.debug_string.assign(debug.debug_string, debug.debug_string_size);
  }
  return memories;
}

}  // namespace tpu::pjrt
