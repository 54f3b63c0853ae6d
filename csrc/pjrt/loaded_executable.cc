#include <atomic>
#include <utility>

#include "pjrt/call.h"
#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "pjrt/inline_array.h"

namespace tpu::pjrt {
namespace {

std::atomic<int64_t> live{0};

PJRT_ExecuteOptions ExecuteOptions(std::span<const int64_t> non_donatable) {
  PJRT_ExecuteOptions options{};
  options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  options.non_donatable_input_indices = non_donatable.data();
  options.num_non_donatable_input_indices = non_donatable.size();
  return options;
}

}  // namespace

LoadedExecutable::LoadedExecutable(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* executable)
    : client_(std::move(client)), loaded_(executable) {
  live.fetch_add(1, std::memory_order_relaxed);
}

LoadedExecutable::~LoadedExecutable() {
  PJRT_LoadedExecutable_Destroy_Args args{};
  args.executable = loaded_;
  (void)TPU_PJRT_CALL(client_->plugin(), PJRT_LoadedExecutable_Destroy, args);
  live.fetch_sub(1, std::memory_order_relaxed);
}

Result<std::unique_ptr<LoadedExecutable>> LoadedExecutable::Create(std::shared_ptr<const Client> client,
                                                                   PJRT_LoadedExecutable* executable) {
  const Plugin& plugin = client->plugin();
  std::unique_ptr<LoadedExecutable> result(new LoadedExecutable(std::move(client), executable));
  PJRT_LoadedExecutable_GetExecutable_Args get{};
  get.loaded_executable = executable;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(plugin, PJRT_LoadedExecutable_GetExecutable, get));
  TPU_ASSIGN_OR_RETURN(result->executable_, Executable::Create(&plugin, get.executable));
  result->num_outputs_ = result->executable_->num_outputs();

  PJRT_LoadedExecutable_AddressableDevices_Args devices{};
  devices.executable = executable;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(plugin, PJRT_LoadedExecutable_AddressableDevices, devices));
  for (size_t i = 0; i < devices.num_addressable_devices; ++i) {
    result->devices_.push_back(result->client_->FindDevice(devices.addressable_devices[i]));
  }
  return result;
}

Result<std::vector<Buffer>> LoadedExecutable::Execute(std::span<const Buffer* const> args, const Device* device,
                                                      std::span<const int64_t> non_donatable, Event* done) const {
  const Plugin& plugin = client_->plugin();
  InlineArray<PJRT_Buffer*> arguments(args.size());
  for (size_t i = 0; i < args.size(); ++i) arguments[i] = args[i]->get();
  InlineArray<PJRT_Buffer*> outputs(num_outputs_);
  PJRT_Buffer* const* argument_list = arguments.data();
  PJRT_Buffer** output_list = outputs.data();
  PJRT_Event* complete = nullptr;

  PJRT_ExecuteOptions options = ExecuteOptions(non_donatable);
  PJRT_LoadedExecutable_Execute_Args call{};
  call.executable = loaded_;
  call.options = &options;
  call.argument_lists = &argument_list;
  call.num_devices = 1;
  call.num_args = args.size();
  call.output_lists = &output_list;
  call.device_complete_events = done != nullptr ? &complete : nullptr;
  call.execute_device = device != nullptr ? device->get() : nullptr;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(plugin, PJRT_LoadedExecutable_Execute, call));

  std::vector<Buffer> results;
  results.reserve(num_outputs_);
  for (size_t i = 0; i < num_outputs_; ++i) results.emplace_back(client_, outputs[i]);
  if (done != nullptr) *done = Event(&plugin, complete);
  return results;
}

Result<std::vector<std::vector<Buffer>>> LoadedExecutable::ExecuteOnAll(
    std::span<const std::vector<const Buffer*>> args, std::span<const int64_t> non_donatable,
    std::vector<Event>* done) const {
  const Plugin& plugin = client_->plugin();
  const size_t num_devices = args.size();
  if (num_devices == 0 || num_devices != devices_.size()) {
    return Status(Code::kInvalidArgument, "LoadedExecutable::ExecuteOnAll: expected arguments for " +
                                              std::to_string(devices_.size()) + " devices, found them for " +
                                              std::to_string(num_devices) + ".");
  }
  const size_t num_args = args.front().size();
  std::vector<PJRT_Buffer*> arguments;
  for (const auto& list : args) {
    if (list.size() != num_args) {
      return Status(Code::kInvalidArgument, "LoadedExecutable::ExecuteOnAll: expected " + std::to_string(num_args) +
                                                " arguments on every device, found " + std::to_string(list.size()) +
                                                " on one.");
    }
    for (const Buffer* buffer : list) arguments.push_back(buffer->get());
  }
  std::vector<PJRT_Buffer*> outputs(num_devices * num_outputs_);
  std::vector<PJRT_Buffer* const*> argument_lists;
  std::vector<PJRT_Buffer**> output_lists;
  for (size_t d = 0; d < num_devices; ++d) {
    argument_lists.push_back(arguments.data() + d * num_args);
    output_lists.push_back(outputs.data() + d * num_outputs_);
  }
  std::vector<PJRT_Event*> complete(num_devices);

  PJRT_ExecuteOptions options = ExecuteOptions(non_donatable);
  PJRT_LoadedExecutable_Execute_Args call{};
  call.executable = loaded_;
  call.options = &options;
  call.argument_lists = argument_lists.data();
  call.num_devices = num_devices;
  call.num_args = num_args;
  call.output_lists = output_lists.data();
  call.device_complete_events = done != nullptr ? complete.data() : nullptr;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(plugin, PJRT_LoadedExecutable_Execute, call));

  std::vector<std::vector<Buffer>> results(num_devices);
  for (size_t d = 0; d < num_devices; ++d) {
    results[d].reserve(num_outputs_);
    for (size_t i = 0; i < num_outputs_; ++i) results[d].emplace_back(client_, output_lists[d][i]);
  }
  if (done != nullptr) {
    done->clear();
    for (PJRT_Event* event : complete) done->emplace_back(&plugin, event);
  }
  return results;
}

int64_t LoadedExecutable::LiveCount() { return live.load(std::memory_order_relaxed); }

}  // namespace tpu::pjrt
