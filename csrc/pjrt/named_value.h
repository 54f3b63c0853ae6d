// Options and Attributes as the C API's PJRT_NamedValue. For files of this folder only.
#pragma once

#include <vector>

#include "pjrt/option.h"
#include "pjrt_c_api.h"

namespace tpu::pjrt {

// Points into `options`, which must outlive the result.
std::vector<PJRT_NamedValue> ToNamedValues(const Options& options);
// Copies everything; values of unknown type are left out.
Attributes FromNamedValues(const PJRT_NamedValue* values, size_t count);

}  // namespace tpu::pjrt
