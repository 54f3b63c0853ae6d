// Compiled programs: Executable can be looked at and serialised, LoadedExecutable can run.
//
// Ownership: both are neither copied nor moved; hold them by unique_ptr or shared_ptr. A LoadedExecutable keeps its
// Client alive and owns its Executable.
// Threads: every method may be called from any thread, Execute included.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "pjrt/buffer.h"
#include "pjrt/compile_options.h"
#include "pjrt/event.h"
#include "pjrt/option.h"

struct PJRT_Executable;
struct PJRT_LoadedExecutable;

namespace tpu::pjrt {

class Client;
class Device;
class Plugin;

struct TensorType {
  DType dtype;
  std::vector<int64_t> dims;
  bool operator==(const TensorType&) const = default;
};

// Bytes, per device.
struct CompiledMemoryStats {
  int64_t generated_code_bytes = 0;
  int64_t argument_bytes = 0;
  int64_t output_bytes = 0;
  int64_t temp_bytes = 0;
  int64_t alias_bytes = 0;
  int64_t peak_bytes = 0;
};

// The program as the plugin hands it out. Format "hlo" is an xla.HloModuleProto, "hlo_with_config" a message that holds
// one, "mlir" text or bytecode.
struct OptimizedProgram {
  std::string format;
  std::string bytes;
};

class Executable {
 public:
  // Takes ownership of `executable`. Reads the number of outputs and their types.
  static Result<std::unique_ptr<Executable>> Create(const Plugin* plugin, PJRT_Executable* executable);
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable();

  size_t num_outputs() const { return outputs_.size(); }
  const std::vector<TensorType>& outputs() const { return outputs_; }

  Result<std::string> name() const;
  // "flops", "bytes accessed", ... as the plugin names them.
  Result<Attributes> CostAnalysis() const;
  Result<CompiledMemoryStats> MemoryStats() const;
  Result<OptimizedProgram> Optimized() const;
  // Readable HLO: the plugin's own text, or one printed from its HloModuleProto (for people; not for parsing).
  Result<std::string> OptimizedHlo() const;
  // For Client::Deserialize of the same plugin and version.
  Result<std::string> Serialize() const;
  // kUnimplemented where the plugin makes none.
  Result<std::string> Fingerprint() const;

 private:
  Executable(const Plugin* plugin, PJRT_Executable* executable) : plugin_(plugin), executable_(executable) {}
  Status ReadOutputs();

  const Plugin* plugin_;
  PJRT_Executable* executable_;
  std::vector<TensorType> outputs_;
};

class LoadedExecutable {
 public:
  // Takes ownership of `executable`.
  static Result<std::unique_ptr<LoadedExecutable>> Create(std::shared_ptr<const Client> client,
                                                          PJRT_LoadedExecutable* executable);
  LoadedExecutable(const LoadedExecutable&) = delete;
  LoadedExecutable& operator=(const LoadedExecutable&) = delete;
  ~LoadedExecutable();

  const Executable& executable() const { return *executable_; }
  size_t num_outputs() const { return num_outputs_; }
  const Client& client() const { return *client_; }

  // Runs the one-device program. May return before the work is done: outputs carry its completion and its error.
  //  `args`           one buffer per parameter, none deleted, all on the device that the program runs on. Count and bytes
  //                   are checked; dims and type are the caller's to get right (CPU reads i32[4] as f32[2,2] silently).
  //                   Parameters that the program was compiled to donate are consumed: IsDeleted() afterwards. A buffer
  //                   passed twice may not be donated.
  //  `device`         where a portable program runs (it needs one); null for the device fixed at compilation.
  //  `non_donatable`  indices of args to spare although the program would donate them (they are copied).
  //  `done`           if not null, receives an event that completes with the execution.
  // On an error nothing is returned; a donated argument may be gone all the same.
  // Allocates nothing but the result for up to 64 arguments and outputs.
  Result<std::vector<Buffer>> Execute(std::span<const Buffer* const> args, const Device* device,
                                      std::span<const int64_t> non_donatable = {}, Event* done = nullptr) const;

  // Runs a program of several replicas or partitions on all its devices at once. args[d] are the arguments of the d-th
  // of addressable_devices(), result[d] its outputs; `done`, if not null, receives one event per device.
  Result<std::vector<std::vector<Buffer>>> ExecuteOnAll(std::span<const std::vector<const Buffer*>> args,
                                                        std::span<const int64_t> non_donatable = {},
                                                        std::vector<Event>* done = nullptr) const;

  // The devices the program was compiled for, in ExecuteOnAll's order; empty for a portable program.
  const std::vector<const Device*>& addressable_devices() const { return devices_; }

  static int64_t LiveCount();

 private:
  LoadedExecutable(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* executable);

  std::shared_ptr<const Client> client_;
  PJRT_LoadedExecutable* loaded_;
  std::unique_ptr<Executable> executable_;
  std::vector<const Device*> devices_;
  size_t num_outputs_ = 0;
};

}  // namespace tpu::pjrt
