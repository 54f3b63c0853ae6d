// A machine on paper: compiles for devices that are not there.
//
// Ownership: held by shared_ptr; owns its device descriptions. Executables compiled for it are independent of its life.
// Threads: every method may be called from any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "pjrt/compile_options.h"
#include "pjrt/device.h"
#include "pjrt/executable.h"
#include "pjrt/option.h"
#include "pjrt/plugin.h"

struct PJRT_TopologyDescription;

namespace tpu::pjrt {

class Topology {
 public:
  // libtpu: names such as "v5e:2x2" or "tpu7x:2x2x1". On a machine without TPUs the plugin must have been loaded with
  // TPU_SKIP_MDS_QUERY=1 in the environment, or this call waits for a metadata server; see PrepareTpuEnvironment.
  static Result<std::shared_ptr<Topology>> Create(std::shared_ptr<Plugin> plugin, const std::string& name,
                                                  const Options& options = {});
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;
  ~Topology();

  const std::string& name() const { return name_; }
  const std::string& platform_name() const { return platform_name_; }
  const std::string& platform_version() const { return platform_version_; }
  const std::vector<DeviceDescription>& devices() const { return devices_; }
  // Identifies the topology in a cache key.
  Result<std::string> Serialize() const;

  // Compiles StableHLO (text or bytecode) without a device.
  Result<std::unique_ptr<Executable>> Compile(std::string_view stablehlo, const CompileOptions& options) const;

 private:
  Topology(std::shared_ptr<Plugin> plugin, std::string name, PJRT_TopologyDescription* topology);
  Status ReadDescription();

  std::shared_ptr<Plugin> plugin_;
  std::string name_;
  PJRT_TopologyDescription* topology_;
  std::string platform_name_;
  std::string platform_version_;
  std::vector<DeviceDescription> devices_;
};

}  // namespace tpu::pjrt
