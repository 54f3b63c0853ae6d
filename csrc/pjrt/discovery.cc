#include "pjrt/discovery.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

namespace tpu::pjrt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGoogle = "0x1ae0";

bool Exists(const std::string& path) {
  std::error_code error;
  return !path.empty() && fs::exists(path, error);
}

// The names in a directory, sorted; none when it cannot be read.
std::vector<std::string> List(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string ReadWord(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// "prefix" followed by a number.
bool IsNumbered(const std::string& name, const std::string& prefix) {
  return name.size() > prefix.size() && name.starts_with(prefix) &&
         std::all_of(name.begin() + static_cast<ptrdiff_t>(prefix.size()), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::string FirstNumbered(const std::string& directory, const std::string& prefix) {
  for (const std::string& name : List(directory)) {
    if (IsNumbered(name, prefix)) return directory + "/" + name;
  }
  return "";
}

// PCI classes start with 0x01 for storage and 0x02 for network.
bool HasGoogleAccelerator(const std::string& pci) {
  for (const std::string& name : List(pci)) {
    if (ReadWord(pci + "/" + name + "/vendor") != kGoogle) continue;
    std::string pci_class = ReadWord(pci + "/" + name + "/class");
    if (!pci_class.starts_with("0x01") && !pci_class.starts_with("0x02")) return true;
  }
  return false;
}

Result<PluginChoice> ChooseCpu(const std::string& path, const std::string& reason) {
  if (!Exists(path)) {
    return Status(Code::kNotFound, "TORCHTPU_PJRT=cpu: expected the CPU plugin, found " +
                                       (path.empty() ? "none installed" : "no file " + path) +
                                       ". Run `pip install xla-cpu-pjrt`.");
  }
  return PluginChoice{PluginKind::kCpu, path, reason};
}

Result<PluginChoice> ChooseTpu(const std::string& libtpu_path, const std::string& device) {
  if (!Exists(libtpu_path)) {
    return Status(Code::kNotFound, "TORCHTPU_PJRT: expected libtpu for the TPU at " + device + ", found " +
                                       (libtpu_path.empty() ? "none installed" : "no file " + libtpu_path) +
                                       ". Run `pip install libtpu`, or set TORCHTPU_PJRT=cpu.");
  }
  return PluginChoice{PluginKind::kTpu, libtpu_path, "found " + device};
}

std::string NoTpu(const HardwareRoots& roots) {
  return "no TPU: no " + roots.dev + "/accel*, and no " + roots.dev +
         "/vfio/<number> together with a Google accelerator (vendor " + kGoogle + ") in " + roots.pci;
}

Result<PluginChoice> ChooseCuda(const std::string& cpu_plugin_path) {
  const char* wish = std::getenv("TORCHTPU_CUDA_PLUGIN");
  if (wish != nullptr && Exists(wish)) return PluginChoice{PluginKind::kCuda, wish, "TORCHTPU_CUDA_PLUGIN"};
  const std::string packages =
      (fs::path(cpu_plugin_path).parent_path().parent_path().parent_path() / "jax_plugins").string();
  for (const std::string& name : List(packages)) {
    std::string path = packages + "/" + name + "/xla_cuda_plugin.so";
    if (name.starts_with("xla_cuda") && Exists(path)) return PluginChoice{PluginKind::kCuda, path, "found " + path};
  }
  return Status(Code::kNotFound, "TORCHTPU_PJRT=cuda: expected a CUDA plugin, found none in " +
                                     std::string(wish != nullptr ? wish : packages) +
                                     ". Run `pip install jax-cuda12-pjrt`, or set TORCHTPU_CUDA_PLUGIN to its path.");
}

}  // namespace

std::string FindTpu(const HardwareRoots& roots) {
  if (std::string accel = FirstNumbered(roots.dev, "accel"); !accel.empty()) return accel;
  std::string vfio = FirstNumbered(roots.dev + "/vfio", "");
  return !vfio.empty() && HasGoogleAccelerator(roots.pci) ? vfio : "";
}

Result<PluginChoice> Discover(const std::string& setting, const std::string& cpu_plugin_path,
                              const std::string& libtpu_path, const HardwareRoots& roots) {
  if (setting.empty() || setting == "auto") {
    std::string tpu = FindTpu(roots);
    return tpu.empty() ? ChooseCpu(cpu_plugin_path, NoTpu(roots)) : ChooseTpu(libtpu_path, tpu);
  }
  if (setting == "cpu") return ChooseCpu(cpu_plugin_path, "TORCHTPU_PJRT=cpu");
  if (setting == "tpu") {
    if (std::string tpu = FindTpu(roots); !tpu.empty()) return ChooseTpu(libtpu_path, tpu);
    return Status(Code::kUnavailable, "TORCHTPU_PJRT=tpu: expected a TPU, found " + NoTpu(roots) +
                                          ". Set TORCHTPU_PJRT=cpu to run on the CPU.");
  }
  if (setting == "cuda") return ChooseCuda(cpu_plugin_path);
  std::error_code error;
  if (!fs::is_regular_file(setting, error)) {
    return Status(Code::kNotFound, "TORCHTPU_PJRT=" + setting +
                                       ": expected auto, cpu, tpu, cuda or the path of a PJRT plugin, found no such "
                                       "file. Set it to one of these.");
  }
  return PluginChoice{PluginKind::kOther, setting, "TORCHTPU_PJRT=" + setting};
}

void PrepareTpuEnvironment(const HardwareRoots& roots) {
  constexpr int kKeep = 0;
  if (FindTpu(roots).empty()) {
    setenv("TPU_SKIP_MDS_QUERY", "1", kKeep);
    // libtpu complains on stderr when it cannot tell what machine it is on; topologies do not depend on the answer.
    setenv("TPU_ACCELERATOR_TYPE", "v5litepod-4", kKeep);
    setenv("TPU_WORKER_HOSTNAMES", "localhost", kKeep);
    setenv("TPU_LOG_DIR", "disabled", kKeep);
    // Its lock file keeps a second process from the chips; compiling for a topology uses none.
    setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", kKeep);
  }
  setenv("TPU_STDERR_LOG_LEVEL", "3", kKeep);
  setenv("TPU_MIN_LOG_LEVEL", "3", kKeep);
}

}  // namespace tpu::pjrt
