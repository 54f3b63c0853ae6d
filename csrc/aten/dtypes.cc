#include "aten/dtypes.h"

#include <c10/util/Exception.h>

namespace tpu::aten {

using c10::ScalarType;

DType ToDType(ScalarType type) {
  switch (type) {
    case ScalarType::Bool: return DType::kBool;
    case ScalarType::Byte: return DType::kU8;
    case ScalarType::Char: return DType::kI8;
    case ScalarType::Short: return DType::kI16;
    case ScalarType::Int: return DType::kI32;
    case ScalarType::Long: return DType::kI64;
    case ScalarType::UInt16: return DType::kU16;
    case ScalarType::UInt32: return DType::kU32;
    case ScalarType::UInt64: return DType::kU64;
    case ScalarType::Half: return DType::kF16;
    case ScalarType::BFloat16: return DType::kBF16;
    case ScalarType::Float: return DType::kF32;
    case ScalarType::Double: return DType::kF64;
    case ScalarType::ComplexFloat: return DType::kC64;
    case ScalarType::ComplexDouble: return DType::kC128;
    case ScalarType::Float8_e4m3fn: return DType::kF8E4M3FN;
    case ScalarType::Float8_e5m2: return DType::kF8E5M2;
    case ScalarType::Float8_e4m3fnuz: return DType::kF8E4M3FNUZ;
    case ScalarType::Float8_e5m2fnuz: return DType::kF8E5M2FNUZ;
    case ScalarType::Float8_e8m0fnu: return DType::kF8E8M0FNU;
    default:
      TORCH_CHECK_TYPE(false, "tpu: dtype ", c10::toString(type),
                       " has no counterpart on the device. Use another dtype.");
  }
}

ScalarType ToScalarType(DType type) {
  switch (type) {
    case DType::kBool: return ScalarType::Bool;
    case DType::kU8: return ScalarType::Byte;
    case DType::kI8: return ScalarType::Char;
    case DType::kI16: return ScalarType::Short;
    case DType::kI32: return ScalarType::Int;
    case DType::kI64: return ScalarType::Long;
    case DType::kU16: return ScalarType::UInt16;
    case DType::kU32: return ScalarType::UInt32;
    case DType::kU64: return ScalarType::UInt64;
    case DType::kF16: return ScalarType::Half;
    case DType::kBF16: return ScalarType::BFloat16;
    case DType::kF32: return ScalarType::Float;
    case DType::kF64: return ScalarType::Double;
    case DType::kC64: return ScalarType::ComplexFloat;
    case DType::kC128: return ScalarType::ComplexDouble;
    case DType::kF8E4M3FN: return ScalarType::Float8_e4m3fn;
    case DType::kF8E5M2: return ScalarType::Float8_e5m2;
    case DType::kF8E4M3FNUZ: return ScalarType::Float8_e4m3fnuz;
    case DType::kF8E5M2FNUZ: return ScalarType::Float8_e5m2fnuz;
    case DType::kF8E8M0FNU: return ScalarType::Float8_e8m0fnu;
  }
  return ScalarType::Undefined;
}

}  // namespace tpu::aten
