#include "aten/guard.h"

#include <c10/core/DeviceCapability.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <memory>

#include "aten/errors.h"
#include "runtime/platform.h"
#include "runtime/recorder.h"
#include "runtime/stream.h"

namespace tpu::aten {
namespace {

constinit thread_local c10::DeviceIndex current_device = 0;

int DeviceCount() {
  static_assert(runtime::kMaxDevices == 128);
  const int count = runtime::Platform::DeviceCount();
  return count < runtime::kMaxDevices ? count : runtime::kMaxDevices - 1;
}

// The device of a stream that has had work; null before the platform is opened, when nothing can have been submitted.
runtime::Device* OpenedDevice(c10::DeviceIndex index) {
  runtime::Platform* platform = runtime::Platform::Opened();
  if (platform == nullptr || runtime::Platform::InForkedChild()) return nullptr;
  return &platform->device(index);
}

runtime::StreamId CheckedStream(const c10::Stream& stream) {
  TORCH_CHECK(stream.device_type() == c10::DeviceType::PrivateUse1, "expected a tpu stream, found one of ",
              stream.device());
  TORCH_CHECK(runtime::IsStream(stream.id()), "tpu stream: expected an id below ", runtime::kStreamCount, ", found ",
              stream.id(), ". Streams come from torch.tpu.Stream().");
  CheckedIndex(stream.device_index());
  return stream.id();
}

c10::Stream MakeStream(c10::DeviceIndex index, runtime::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, index), id);
}

runtime::Event* AsEvent(void* event) { return static_cast<runtime::Event*>(event); }

// What XLA computes with. Quantised types and complex32 are not among them.
c10::DeviceCapability Capability() {
  c10::DeviceCapability capability;
  auto& bits = capability.capability_data.capability_bits;
  bits = 0;
  for (auto index : {c10::kIndex_Byte,
                     c10::kIndex_Char,
                     c10::kIndex_Short,
                     c10::kIndex_Int,
                     c10::kIndex_Long,
                     c10::kIndex_UInt16,
                     c10::kIndex_UInt32,
                     c10::kIndex_UInt64,
                     c10::kIndex_Half,
                     c10::kIndex_BFloat16,
                     c10::kIndex_Float,
                     c10::kIndex_Double,
                     c10::kIndex_ComplexFloat,
                     c10::kIndex_ComplexDouble,
                     c10::kIndex_Bool,
                     c10::kIndex_Float8_e5m2,
                     c10::kIndex_Float8_e4m3fn,
                     c10::kIndex_Float8_e5m2fnuz,
                     c10::kIndex_Float8_e4m3fnuz,
                     c10::kIndex_Float8_e8m0fnu}) {
    bits |= uint64_t{1} << index;
  }
  return capability;
}

class GuardImpl final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(DeviceCount()); }

  c10::Device getDevice() const override { return c10::Device(c10::DeviceType::PrivateUse1, current_device); }
  void setDevice(c10::Device device) const override { SetCurrentDevice(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current_device = device.index(); }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device previous = getDevice();
    SetCurrentDevice(device.index());
    return previous;
  }

  c10::Stream getStream(c10::Device device) const override {
    const c10::DeviceIndex index = CheckedIndex(device.index());
    return MakeStream(index, runtime::CurrentStream(index));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return MakeStream(CheckedIndex(device.index()), runtime::kDefaultStream);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    const c10::DeviceIndex index = CheckedIndex(device.index());
    return MakeStream(index, runtime::NextPoolStream(index, high_priority));
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return getStreamFromGlobalPool(device, priority < 0);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const runtime::StreamId id = CheckedStream(stream);
    return MakeStream(stream.device_index(), runtime::ExchangeCurrentStream(stream.device_index(), id));
  }
  // A stream is its position, so that is what an address of it can point at.
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return &runtime::stream_internal::positions[stream.device_index()][CheckedStream(stream)];
  }
  bool queryStream(const c10::Stream& stream) const override {
    const runtime::StreamId id = CheckedStream(stream);
    runtime::Device* device = OpenedDevice(stream.device_index());
    if (device == nullptr) return true;
    runtime::Flush(*device, runtime::FlushReason::kSynchronize);
    return device->Completed(runtime::StreamPosition(stream.device_index(), id)) &&
           device->externals(id).Running().empty();
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    const runtime::StreamId id = CheckedStream(stream);
    if (runtime::Device* device = OpenedDevice(stream.device_index())) {
      runtime::Flush(*device, runtime::FlushReason::kSynchronize);
      device->Await(runtime::StreamPosition(stream.device_index(), id));
      for (const auto& external : device->externals(id).Running()) {
        device->Await(*external, std::nullopt);
      }
      RaiseIfError(device->TakeError());
    }
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    if (runtime::Device* device = OpenedDevice(CheckedIndex(index))) Synchronize(*device);
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device_index,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(device_index == -1 || device_index == stream.device_index(), "Event device index ", int{device_index},
                " does not match recording stream's device index ", int{stream.device_index()}, ".");
    const runtime::StreamId id = CheckedStream(stream);
    if (*event == nullptr) *event = new runtime::Event(/*timed=*/flag == c10::EventFlag::BACKEND_DEFAULT);
    AsEvent(*event)->Record(DeviceAt(stream.device_index()), id);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) AsEvent(event)->Block(DeviceAt(stream.device_index()), CheckedStream(stream));
  }
  bool queryEvent(void* event) const override { return event == nullptr || AsEvent(event)->Reached(); }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr || !AsEvent(event)->recorded()) return;
    AsEvent(event)->Await();
    RaiseIfError(DeviceAt(AsEvent(event)->device_index()).TakeError());
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr, "Both events must be recorded before calculating elapsed time.");
    return ValueOrRaise(AsEvent(start)->ElapsedMs(*AsEvent(end)));
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete AsEvent(event); }

  // recordDataPtrOnStream keeps its default, which does nothing: a device's queue is in order, so memory released after
  // the last use on any of its streams cannot be reused before it.

  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return Capability(); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl);

}  // namespace

c10::DeviceIndex CurrentDevice() noexcept { return current_device; }

c10::DeviceIndex CheckedIndex(int64_t index) {
  if (index == -1 || index == current_device) return current_device;
  const int count = DeviceCount();
  TORCH_CHECK(index >= 0 && index < count, "invalid device ordinal: expected a tpu index below ", count, ", found ",
              index, ". With the CPU plugin, TORCHTPU_CPU_DEVICES sets the number of devices.");
  return static_cast<c10::DeviceIndex>(index);
}

void SetCurrentDevice(int64_t index) { current_device = CheckedIndex(index); }

runtime::Device& DeviceAt(int64_t index) {
  runtime::Platform* platform = ValueOrRaise(runtime::Platform::Get());
  const c10::DeviceIndex checked = CheckedIndex(index);
  TORCH_CHECK(checked < platform->device_count(), "invalid device ordinal: there is no tpu device");
  return platform->device(checked);
}

void Synchronize(runtime::Device& device) {
  runtime::Flush(device, runtime::FlushReason::kSynchronize);
  device.Await(device.last_submitted());
  for (const auto& external : device.externals().Running()) device.Await(*external, std::nullopt);
  RaiseIfError(device.TakeError());
}

}  // namespace tpu::aten
