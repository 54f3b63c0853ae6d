// The one PJRT client of the process and its devices, opened on first use.
#pragma once

#include <memory>
#include <string>

#include "runtime/device.h"

namespace tpu::runtime {

struct PlatformConfig {
  std::string setting;     // TORCHTPU_PJRT: auto, cpu, tpu, cuda or a path
  std::string cpu_plugin;  // path of xla_cpu_pjrt.so; empty when not installed
  std::string libtpu;      // path of libtpu.so; empty when not installed
  int cpu_devices = 1;     // TORCHTPU_CPU_DEVICES
};

class Platform {
 public:
  // Set once by the Python layer before anything else. Opens nothing.
  static void Configure(PlatformConfig config);
  // Opens the client on the first call; the same error again on later calls when that failed.
  static Result<Platform*> Get();
  // Null until Get has succeeded.
  static Platform* Opened();
  // Whether there is hardware, or a plugin that was asked for, that has not failed to open. Opens nothing.
  static bool Available();
  // The number of devices without opening a client where that is known (CPU plugin); opens it otherwise. Never fails: 0.
  static int DeviceCount();
  // In a forked child the client's threads are gone: Get then fails with a message that says so.
  static void MarkForked();
  static bool InForkedChild();
  static Status ForkedError();
  // Runs what is queued and ends the submission threads, before the interpreter goes away.
  static void Shutdown();

  Platform(std::shared_ptr<pjrt::Client> client, std::string description);
  ~Platform();
  int device_count() const { return static_cast<int>(devices_.size()); }
  Device& device(int index) { return *devices_.at(index); }
  pjrt::Client& client() { return *client_; }
  // "CPU plugin (PJRT 0.81) ..." for people.
  const std::string& description() const { return description_; }
  bool is_cpu() const { return is_cpu_; }

 private:
  std::shared_ptr<pjrt::Client> client_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::string description_;
  bool is_cpu_ = false;
};

}  // namespace tpu::runtime
