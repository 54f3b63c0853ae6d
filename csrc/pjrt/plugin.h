// A PJRT plugin: a shared library that exports GetPjrtApi.
//
// Ownership: plugins are kept for the life of the process and never dlclosed, since plugins own threads that cannot be
// stopped. A `const Plugin*` therefore never dangles.
// Threads: every method may be called from any thread.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "pjrt/option.h"

struct PJRT_Api;

namespace tpu::pjrt {

class Plugin {
 public:
  // Loads and initialises the plugin, or returns the one already loaded from the same file (symlinks resolved).
  // Fails with kNotFound when there is no such file, kInvalidArgument when it is not a plugin or has a version that we
  // cannot use, and with the plugin's own error when initialisation fails.
  static Result<std::shared_ptr<Plugin>> Load(const std::string& path);

  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const PJRT_Api* api() const { return api_; }
  // As first given to Load.
  const std::string& path() const { return path_; }
  int api_major() const { return api_major_; }
  int api_minor() const { return api_minor_; }

  // Whether the plugin has an entry: `plugin.Has(&PJRT_Api::PJRT_Compile)`. Include pjrt/call.h to use it.
  template <typename Fn>
  bool Has(Fn* PJRT_Api::*entry) const;

  // What the plugin says of itself (`xla_version`, `stablehlo_current_version`, ...); empty if it says nothing.
  const Attributes& attributes() const { return attributes_; }
  // "1.13.3", or "" when the plugin does not tell.
  std::string stablehlo_version() const;

 private:
  Plugin(std::string path, const PJRT_Api* api);
  static Result<std::shared_ptr<Plugin>> Open(const std::string& path, const std::string& resolved);

  std::string path_;
  const PJRT_Api* api_;
  int api_major_ = 0;
  int api_minor_ = 0;
  Attributes attributes_;
};

}  // namespace tpu::pjrt
