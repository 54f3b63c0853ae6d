// The current device (one per thread) and the way from a device index to the runtime's device.
#pragma once

#include <c10/core/Device.h>

#include "runtime/device.h"

namespace tpu::aten {

c10::DeviceIndex CurrentDevice() noexcept;
// Raises "invalid device ordinal" for an index that there is not. Opens no client where the count is known without.
void SetCurrentDevice(int64_t index);
// Resolves -1 to the current device and checks the rest as SetCurrentDevice does.
c10::DeviceIndex CheckedIndex(int64_t index);

// The runtime's device, opening the client on the first call; -1 is the current device. Raises.
runtime::Device& DeviceAt(int64_t index);

// Blocks until all work submitted to the device is done, then raises the device's pending error, if any.
void Synchronize(runtime::Device& device);

}  // namespace tpu::aten
