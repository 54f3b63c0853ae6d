// A running PJRT client: devices that can hold buffers and run programs.
//
// Ownership: held by shared_ptr; every Buffer and LoadedExecutable of the client keeps it alive. It must not be
// destroyed from a callback of the plugin (Event::OnReady, FromHost's done), since its destructor joins the plugin's threads.
// Threads: every method may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "pjrt/buffer.h"
#include "pjrt/device.h"
#include "pjrt/executable.h"
#include "pjrt/option.h"
#include "pjrt/plugin.h"

struct PJRT_Client;
struct PJRT_Device;

namespace tpu::pjrt {

// How long the runtime may read the host memory given to FromHost.
enum class HostSemantics {
  kDuringCall,              // copied before FromHost returns
  kUntilTransferCompletes,  // immutable until `done`
  kZeroCopy,                // the buffer may alias the memory: immutable until `done`, which comes when the buffer dies
};

class Client : public std::enable_shared_from_this<Client> {
 public:
  // `options` are the plugin's own (the CPU plugin: {"cpu_device_count", int64_t}).
  static Result<std::shared_ptr<Client>> Create(std::shared_ptr<Plugin> plugin, const Options& options = {});
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  const Plugin& plugin() const { return *plugin_; }
  // "cpu", "tpu", "cuda".
  const std::string& platform_name() const { return platform_name_; }
  const std::string& platform_version() const { return platform_version_; }
  bool is_cpu() const { return is_cpu_; }
  int process_index() const { return process_index_; }

  // The addressable devices, in the plugin's order; pointers are stable for the client's life.
  const std::vector<const Device*>& devices() const { return device_pointers_; }
  // Null when `device` is not one of devices().
  const Device* FindDevice(const PJRT_Device* device) const;

  // Compiles StableHLO (text or bytecode). Blocks for as long as the compiler takes.
  Result<std::unique_ptr<LoadedExecutable>> Compile(std::string_view stablehlo, const CompileOptions& options) const;
  // Loads the bytes that Executable::Serialize made, on the same plugin version.
  Result<std::unique_ptr<LoadedExecutable>> Deserialize(std::string_view serialized) const;

  // Copies (or aliases) dense row-major host data. `done` is called exactly once, when the host memory may be released:
  // before FromHost returns with kDuringCall and on every error, otherwise possibly later and from another thread. It
  // must not block, throw, or drop the last reference to this client. `device` is one of devices().
  Result<Buffer> FromHost(const void* data, DType dtype, std::span<const int64_t> dims, const Device& device,
                          HostSemantics semantics, std::function<void()> done = {}) const;

  // Memory with unspecified contents; kUnimplemented on plugins without it.
  Result<Buffer> Uninitialized(DType dtype, std::span<const int64_t> dims, const Device& device) const;

  PJRT_Client* get() const { return client_; }
  static int64_t LiveCount();

 private:
  Client(std::shared_ptr<Plugin> plugin, PJRT_Client* client);
  Status ReadDevices();

  std::shared_ptr<Plugin> plugin_;
  PJRT_Client* client_;
  std::string platform_name_;
  std::string platform_version_;
  bool is_cpu_ = false;
  int process_index_ = 0;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<const Device*> device_pointers_;
};

}  // namespace tpu::pjrt
