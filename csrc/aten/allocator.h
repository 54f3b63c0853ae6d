// The device allocator's figures, for PyTorch's interface and for torch.tpu.
#pragma once

#include <cstdint>
#include <utility>

#include "runtime/device.h"

namespace tpu::aten {

// The device's own memory: what the plugin says, or else the machine's.
int64_t TotalMemory(const runtime::Device& device);
// {free, total} bytes. Free is what this process may still allocate.
std::pair<int64_t, int64_t> FreeAndTotalMemory(const runtime::Device& device);

}  // namespace tpu::aten
