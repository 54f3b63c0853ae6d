// c10::ScalarType and the device's element types.
#pragma once

#include <c10/core/ScalarType.h>

#include "base/dtype.h"

namespace tpu::aten {

// Raises TypeError for a dtype that has no StableHLO element type (quantized, bits, complex32).
DType ToDType(c10::ScalarType type);
c10::ScalarType ToScalarType(DType type);

}  // namespace tpu::aten
