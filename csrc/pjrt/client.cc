#include "pjrt/client.h"

#include <atomic>
#include <utility>

#include "pjrt/call.h"
#include "pjrt/element_type.h"
#include "pjrt/named_value.h"
#include "pjrt/program.h"

namespace tpu::pjrt {
namespace {

std::atomic<int64_t> live{0};

PJRT_HostBufferSemantics Semantics(HostSemantics semantics) {
  switch (semantics) {
    case HostSemantics::kDuringCall: return PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    case HostSemantics::kUntilTransferCompletes: return PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
    case HostSemantics::kZeroCopy: return PJRT_HostBufferSemantics_kImmutableZeroCopy;
  }
  return PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
}

}  // namespace

Client::Client(std::shared_ptr<Plugin> plugin, PJRT_Client* client) : plugin_(std::move(plugin)), client_(client) {
  live.fetch_add(1, std::memory_order_relaxed);
}

Client::~Client() {
  PJRT_Client_Destroy_Args args{};
  args.client = client_;
  (void)TPU_PJRT_CALL(*plugin_, PJRT_Client_Destroy, args);
  live.fetch_sub(1, std::memory_order_relaxed);
}

Result<std::shared_ptr<Client>> Client::Create(std::shared_ptr<Plugin> plugin, const Options& options) {
  std::vector<PJRT_NamedValue> values = ToNamedValues(options);
  PJRT_Client_Create_Args args{};
  args.create_options = values.data();
  args.num_options = values.size();
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin, PJRT_Client_Create, args));
  std::shared_ptr<Client> client(new Client(std::move(plugin), args.client));

  PJRT_Client_PlatformName_Args name{};
  name.client = args.client;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(client->plugin(), PJRT_Client_PlatformName, name));
  client->platform_name_.assign(name.platform_name, name.platform_name_size);
  client->is_cpu_ = client->platform_name_ == "cpu";

  PJRT_Client_PlatformVersion_Args version{};
  version.client = args.client;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(client->plugin(), PJRT_Client_PlatformVersion, version));
  client->platform_version_.assign(version.platform_version, version.platform_version_size);

  PJRT_Client_ProcessIndex_Args process{};
  process.client = args.client;
  if (TPU_PJRT_CALL(client->plugin(), PJRT_Client_ProcessIndex, process).ok()) {
    client->process_index_ = process.process_index;
  }
  TPU_RETURN_IF_ERROR(client->ReadDevices());
  return client;
}

Status Client::ReadDevices() {
  PJRT_Client_AddressableDevices_Args args{};
  args.client = client_;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Client_AddressableDevices, args));
  for (size_t i = 0; i < args.num_addressable_devices; ++i) {
    PJRT_Device_GetDescription_Args description{};
    description.device = args.addressable_devices[i];
    TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Device_GetDescription, description));
    devices_.push_back(
        std::make_unique<Device>(plugin_.get(), args.addressable_devices[i], description.device_description));
    device_pointers_.push_back(devices_.back().get());
  }
  if (devices_.empty()) {
    return Status(Code::kUnavailable, "PJRT_Client_AddressableDevices: expected at least one device, found none on " +
                                          platform_name_ + " (" + plugin_->path() + ").");
  }
  return Status();
}

const Device* Client::FindDevice(const PJRT_Device* device) const {
  for (const Device* d : device_pointers_) {
    if (d->get() == device) return d;
  }
  return nullptr;
}

Result<std::unique_ptr<LoadedExecutable>> Client::Compile(std::string_view stablehlo,
                                                          const CompileOptions& options) const {
  const PJRT_Program program = StablehloProgram(stablehlo);
  const std::string serialized = Serialize(options);
  PJRT_Client_Compile_Args args{};
  args.client = client_;
  args.program = &program;
  args.compile_options = serialized.data();
  args.compile_options_size = serialized.size();
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Client_Compile, args));
  return LoadedExecutable::Create(shared_from_this(), args.executable);
}

Result<std::unique_ptr<LoadedExecutable>> Client::Deserialize(std::string_view serialized) const {
  PJRT_Executable_DeserializeAndLoad_Args args{};
  args.client = client_;
  args.serialized_executable = serialized.data();
  args.serialized_executable_size = serialized.size();
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Executable_DeserializeAndLoad, args));
  return LoadedExecutable::Create(shared_from_this(), args.loaded_executable);
}

Result<Buffer> Client::FromHost(const void* data, DType dtype, std::span<const int64_t> dims, const Device& device,
                                HostSemantics semantics, std::function<void()> done) const {
  PJRT_Client_BufferFromHostBuffer_Args args{};
  args.client = client_;
  args.data = data;
  args.type = ToPjrt(dtype);
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.host_buffer_semantics = Semantics(semantics);
  args.device = device.get();
  if (Status s = TPU_PJRT_CALL(*plugin_, PJRT_Client_BufferFromHostBuffer, args); !s.ok()) {
    if (done) done();
    return s;
  }
  Buffer buffer(shared_from_this(), args.buffer);
  Event released(plugin_.get(), args.done_with_host_buffer);
  if (done) {
    if (semantics == HostSemantics::kDuringCall) {
      done();
    } else {
      released.OnReady([done = std::move(done)](Status) { done(); });
    }
  }
  return buffer;
}

Result<Buffer> Client::Uninitialized(DType dtype, std::span<const int64_t> dims, const Device& device) const {
  PJRT_Client_CreateUninitializedBuffer_Args args{};
  args.client = client_;
  args.shape_dims = dims.data();
  args.shape_num_dims = dims.size();
  args.shape_element_type = ToPjrt(dtype);
  args.device = device.get();
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Client_CreateUninitializedBuffer, args));
  return Buffer(shared_from_this(), args.buffer);
}

int64_t Client::LiveCount() { return live.load(std::memory_order_relaxed); }

}  // namespace tpu::pjrt
