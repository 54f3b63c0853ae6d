// What PyTorch's device-independent code asks about the backend.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "aten/errors.h"
#include "aten/generator.h"
#include "aten/guard.h"
#include "aten/pinned_memory.h"
#include "aten/tensor.h"
#include "runtime/platform.h"
#include "runtime/value.h"

namespace tpu::aten {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return runtime::Platform::Available(); }
  void init() const override { ValueOrRaise(runtime::Platform::Get()); }
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    const runtime::Platform* platform = runtime::Platform::Opened();
    return platform != nullptr && index < platform->device_count();
  }

  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(runtime::Platform::DeviceCount());
  }
  c10::DeviceIndex getCurrentDevice() const override { return CurrentDevice(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { SetCurrentDevice(index); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex previous = CurrentDevice();
    SetCurrentDevice(index);
    return previous;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? CurrentDevice() : exchangeDevice(index);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return DefaultGenerator(index); }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override { return CreateGenerator(index); }

  at::Device getDeviceFromPtr(void*) const override {
    TORCH_CHECK_NOT_IMPLEMENTED(false,
                                "tpu: expected a tensor, found a raw pointer. The memory of a tpu has no addresses; "
                                "copy through the CPU instead.");
  }
  bool isPinnedPtr(const void* data) const override { return IsPinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return at::getHostAllocator(at::kPrivateUse1); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size_bytes) const override {
    c10::DataPtr& data = storage.mutable_data_ptr();
    if (auto* slot = static_cast<runtime::Slot*>(data.get_context())) {
      RaiseIfError(slot->Resize(size_bytes));
      // The slot stays; its address has changed.
      const c10::Device device = data.device();
      const c10::DeleterFnPtr deleter = data.get_deleter();
      static_cast<void>(data.release_context());
      storage.set_data_ptr_noswap(c10::DataPtr(slot->address(), slot, deleter, device));
    } else {
      storage.set_data_ptr_noswap(MakeSlot(DeviceAt(storage.device().index()), size_bytes));
    }
    storage.set_nbytes(size_bytes);
  }
};

[[maybe_unused]] const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace
}  // namespace tpu::aten
