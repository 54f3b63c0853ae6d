#include "pjrt/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "pjrt/call.h"
#include "pjrt/named_value.h"

namespace tpu::pjrt {
namespace {

// The last entry without which this folder cannot work; later ones are checked at each call.
constexpr size_t kRequiredSize = PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Executable_OutputDimensions);
constexpr size_t kVersionSize = PJRT_STRUCT_SIZE(PJRT_Api, pjrt_api_version);

std::string Version(int major, int minor) { return std::to_string(major) + "." + std::to_string(minor); }

Status CheckVersion(const std::string& path, const PJRT_Api* api) {
  const std::string start = "Plugin " + path + ": expected PJRT C API " + std::to_string(PJRT_API_MAJOR) +
                            ".x with at least " + std::to_string(kRequiredSize) + " bytes of entries (built against " +
                            Version(PJRT_API_MAJOR, PJRT_API_MINOR) + "), found ";
  const std::string what_to_do = ". Set TORCHTPU_PJRT to a plugin of a matching version.";
  if (api->struct_size < kVersionSize) {
    return Status(Code::kInvalidArgument, start + std::to_string(api->struct_size) + " bytes" + what_to_do);
  }
  const PJRT_Api_Version& v = api->pjrt_api_version;
  const std::string found = Version(v.major_version, v.minor_version);
  if (v.major_version != PJRT_API_MAJOR) return Status(Code::kInvalidArgument, start + found + what_to_do);
  if (api->struct_size < kRequiredSize) {
    return Status(Code::kInvalidArgument,
                  start + found + " with " + std::to_string(api->struct_size) + " bytes" + what_to_do);
  }
  return Status();
}

}  // namespace

Plugin::Plugin(std::string path, const PJRT_Api* api)
    : path_(std::move(path)),
      api_(api),
      api_major_(api->pjrt_api_version.major_version),
      api_minor_(api->pjrt_api_version.minor_version) {}

Result<std::shared_ptr<Plugin>> Plugin::Open(const std::string& path, const std::string& resolved) {
  void* library = dlopen(resolved.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return Status(Code::kInvalidArgument, "Plugin " + path + ": expected a shared library, found: " +
                                              (reason != nullptr ? reason : "no reason given") +
                                              ". Set TORCHTPU_PJRT to a PJRT plugin.");
  }
  // A library that is refused below stays open: it may have started threads.
  auto get_api = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) {
    return Status(Code::kInvalidArgument, "Plugin " + path +
                                              ": expected a PJRT plugin, found a library without GetPjrtApi. "
                                              "Set TORCHTPU_PJRT to a PJRT plugin.");
  }
  const PJRT_Api* api = get_api();
  if (api == nullptr) {
    return Status(Code::kInvalidArgument,
                  "Plugin " + path + ": expected an API table, found that GetPjrtApi gave none. Reinstall the plugin.");
  }
  TPU_RETURN_IF_ERROR(CheckVersion(path, api));

  std::shared_ptr<Plugin> plugin(new Plugin(path, api));
  PJRT_Plugin_Initialize_Args initialize{};
  if (Status s = TPU_PJRT_CALL(*plugin, PJRT_Plugin_Initialize, initialize); !s.ok()) {
    return Status(s.code(), s.message() + " [plugin " + path + "]");
  }
  PJRT_Plugin_Attributes_Args attributes{};
  if (TPU_PJRT_CALL(*plugin, PJRT_Plugin_Attributes, attributes).ok()) {
    plugin->attributes_ = FromNamedValues(attributes.attributes, attributes.num_attributes);
  }
  return plugin;
}

Result<std::shared_ptr<Plugin>> Plugin::Load(const std::string& path) {
  std::error_code error;
  std::string resolved = std::filesystem::canonical(path, error).string();
  if (error) {
    return Status(Code::kNotFound, "Plugin " + path + ": expected a file, found: " + error.message() +
                                       ". Set TORCHTPU_PJRT to auto, cpu, tpu, cuda or the path of a PJRT plugin.");
  }
  // Never destroyed: plugins outlive static destruction.
  static std::mutex& mutex = *new std::mutex;
  static auto& loaded = *new std::map<std::string, std::shared_ptr<Plugin>>;
  std::lock_guard lock(mutex);
  if (auto it = loaded.find(resolved); it != loaded.end()) return it->second;
  TPU_ASSIGN_OR_RETURN(auto plugin, Open(path, resolved));
  loaded.emplace(std::move(resolved), plugin);
  return plugin;
}

std::string Plugin::stablehlo_version() const {
  auto it = attributes_.find("stablehlo_current_version");
  if (it == attributes_.end()) return "";
  std::string text;
  if (const auto* parts = std::get_if<std::vector<int64_t>>(&it->second)) {
    for (int64_t part : *parts) text += (text.empty() ? "" : ".") + std::to_string(part);
    return text;
  }
  return ToString(it->second);
}

}  // namespace tpu::pjrt
