// Page-aligned host memory that copies to the device may read after the call that started them.
#pragma once

namespace tpu::aten {

// Whether `data` lies in memory of the pinned allocator.
bool IsPinned(const void* data);

}  // namespace tpu::aten
