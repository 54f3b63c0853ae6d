// A StableHLO program as the C API's PJRT_Program. For files of this folder only.
#pragma once

#include <string_view>

#include "pjrt_c_api.h"

namespace tpu::pjrt {

// Points into `stablehlo`, which must outlive the result. Compilers do not write to it.
inline PJRT_Program StablehloProgram(std::string_view stablehlo) {
  static constexpr std::string_view kFormat = "mlir";
  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  program.code = const_cast<char*>(stablehlo.data());
  program.code_size = stablehlo.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  return program;
}

}  // namespace tpu::pjrt
