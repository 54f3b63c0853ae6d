// Our DType as the C API's PJRT_Buffer_Type. For files of this folder only.
#pragma once

#include <string>

#include "base/dtype.h"
#include "base/status.h"
#include "pjrt_c_api.h"

namespace tpu::pjrt {

constexpr PJRT_Buffer_Type ToPjrt(DType t) {
  switch (t) {
    case DType::kBool: return PJRT_Buffer_Type_PRED;
    case DType::kU8: return PJRT_Buffer_Type_U8;
    case DType::kI8: return PJRT_Buffer_Type_S8;
    case DType::kI16: return PJRT_Buffer_Type_S16;
    case DType::kI32: return PJRT_Buffer_Type_S32;
    case DType::kI64: return PJRT_Buffer_Type_S64;
    case DType::kU16: return PJRT_Buffer_Type_U16;
    case DType::kU32: return PJRT_Buffer_Type_U32;
    case DType::kU64: return PJRT_Buffer_Type_U64;
    case DType::kF16: return PJRT_Buffer_Type_F16;
    case DType::kBF16: return PJRT_Buffer_Type_BF16;
    case DType::kF32: return PJRT_Buffer_Type_F32;
    case DType::kF64: return PJRT_Buffer_Type_F64;
    case DType::kC64: return PJRT_Buffer_Type_C64;
    case DType::kC128: return PJRT_Buffer_Type_C128;
    case DType::kF8E4M3FN: return PJRT_Buffer_Type_F8E4M3FN;
    case DType::kF8E5M2: return PJRT_Buffer_Type_F8E5M2;
    case DType::kF8E4M3FNUZ: return PJRT_Buffer_Type_F8E4M3FNUZ;
    case DType::kF8E5M2FNUZ: return PJRT_Buffer_Type_F8E5M2FNUZ;
    case DType::kF8E8M0FNU: return PJRT_Buffer_Type_F8E8M0FNU;
  }
  return PJRT_Buffer_Type_INVALID;
}

// kUnimplemented for types that no DType stands for (4-bit integers, tokens).
inline Result<DType> FromPjrt(PJRT_Buffer_Type type) {
  for (int t = 0; t <= static_cast<int>(DType::kF8E8M0FNU); ++t) {
    if (ToPjrt(static_cast<DType>(t)) == type) return static_cast<DType>(t);
  }
  return Status(Code::kUnimplemented, "PJRT_Buffer_Type: expected an element type that PyTorch has, found number " +
                                          std::to_string(static_cast<int>(type)) + ".");
}

}  // namespace tpu::pjrt
