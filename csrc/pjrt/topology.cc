#include "pjrt/topology.h"

#include <utility>

#include "pjrt/call.h"
#include "pjrt/named_value.h"
#include "pjrt/program.h"

namespace tpu::pjrt {

Topology::Topology(std::shared_ptr<Plugin> plugin, std::string name, PJRT_TopologyDescription* topology)
    : plugin_(std::move(plugin)), name_(std::move(name)), topology_(topology) {}

Topology::~Topology() {
  PJRT_TopologyDescription_Destroy_Args args{};
  args.topology = topology_;
  (void)TPU_PJRT_CALL(*plugin_, PJRT_TopologyDescription_Destroy, args);
}

Result<std::shared_ptr<Topology>> Topology::Create(std::shared_ptr<Plugin> plugin, const std::string& name,
                                                   const Options& options) {
  std::vector<PJRT_NamedValue> values = ToNamedValues(options);
  PJRT_TopologyDescription_Create_Args args{};
  args.topology_name = name.data();
  args.topology_name_size = name.size();
  args.create_options = values.data();
  args.num_options = values.size();
  if (Status s = TPU_PJRT_CALL(*plugin, PJRT_TopologyDescription_Create, args); !s.ok()) {
    return Status(s.code(), s.message() + " [topology \"" + name + "\"]");
  }
  std::shared_ptr<Topology> topology(new Topology(std::move(plugin), name, args.topology));
  TPU_RETURN_IF_ERROR(topology->ReadDescription());
  return topology;
}

Status Topology::ReadDescription() {
  PJRT_TopologyDescription_PlatformName_Args platform{};
  platform.topology = topology_;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_TopologyDescription_PlatformName, platform));
  platform_name_.assign(platform.platform_name, platform.platform_name_size);

  PJRT_TopologyDescription_PlatformVersion_Args version{};
  version.topology = topology_;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_TopologyDescription_PlatformVersion, version));
  platform_version_.assign(version.platform_version, version.platform_version_size);

  PJRT_TopologyDescription_GetDeviceDescriptions_Args devices{};
  devices.topology = topology_;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_TopologyDescription_GetDeviceDescriptions, devices));
  devices_.reserve(devices.num_descriptions);
  for (size_t i = 0; i < devices.num_descriptions; ++i) {
    devices_.emplace_back(plugin_.get(), devices.descriptions[i]);
  }
  return Status();
}

Result<std::string> Topology::Serialize() const {
  PJRT_TopologyDescription_Serialize_Args args{};
  args.topology = topology_;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_TopologyDescription_Serialize, args));
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  if (args.serialized_topology_deleter != nullptr) args.serialized_topology_deleter(args.serialized_topology);
  return bytes;
}

Result<std::unique_ptr<Executable>> Topology::Compile(std::string_view stablehlo, const CompileOptions& options) const {
  const PJRT_Program program = StablehloProgram(stablehlo);
  const std::string serialized = pjrt::Serialize(options);
  PJRT_Compile_Args args{};
  args.topology = topology_;
  args.program = &program;
  args.compile_options = serialized.data();
  args.compile_options_size = serialized.size();
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Compile, args));
  return Executable::Create(plugin_.get(), args.executable);
}

}  // namespace tpu::pjrt
