// Which plugin to use: TORCHTPU_PJRT = auto | cpu | tpu | cuda | a path.
//
// Looks at the file system only: starts no client, asks no metadata server, never blocks.
#pragma once

#include <string>

#include "base/status.h"
#include "pjrt/option.h"

namespace tpu::pjrt {

enum class PluginKind { kCpu, kTpu, kCuda, kOther };

struct PluginChoice {
  PluginKind kind = PluginKind::kCpu;
  std::string path;    // for Plugin::Load
  std::string reason;  // for `torchtpu doctor` and logs: what was found, or why not
};

// Where the hardware is looked for; tests point it at a directory of their own.
struct HardwareRoots {
  std::string dev = "/dev";
  std::string pci = "/sys/bus/pci/devices";
};

// The TPU's device file ("/dev/accel0", or "/dev/vfio/0" when a PCI device of Google's, 0x1ae0, is there that is
// neither network nor storage: those are Google's too on a cloud machine), or "" if there is no TPU.
std::string FindTpu(const HardwareRoots& roots = {});

// `setting` is the value of TORCHTPU_PJRT ("" means auto); the paths are where the Python packages keep their plugins,
// "" when not installed. "cuda" takes TORCHTPU_CUDA_PLUGIN from the environment, or else looks for jax_plugins/xla_cuda*
// in the site-packages of the CPU plugin. An existing path is not opened here; Plugin::Load says whether it is a plugin.
// Fails when the wish cannot be met, saying what was looked for and what to set.
Result<PluginChoice> Discover(const std::string& setting, const std::string& cpu_plugin_path,
                              const std::string& libtpu_path, const HardwareRoots& roots = {});

// Call before loading libtpu. Without a TPU sets TPU_SKIP_MDS_QUERY=1, lest it wait for a metadata server, and keeps
// it off stderr and /tmp/tpu_logs. Variables that the user has set stay. Not safe while other threads read the environment.
void PrepareTpuEnvironment(const HardwareRoots& roots = {});

}  // namespace tpu::pjrt
