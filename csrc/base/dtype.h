// Element types, by their StableHLO names; shared by every layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tpu {

enum class DType : uint8_t {
  kBool,
  kU8,
  kI8,
  kI16,
  kI32,
  kI64,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128,
  kF8E4M3FN,
  kF8E5M2,
  kF8E4M3FNUZ,
  kF8E5M2FNUZ,
  kF8E8M0FNU,
};

constexpr size_t ItemSize(DType t) {
  switch (t) {
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
    case DType::kF8E4M3FN:
    case DType::kF8E5M2:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2FNUZ:
    case DType::kF8E8M0FNU: return 1;
    case DType::kI16:
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16: return 2;
    case DType::kI32:
    case DType::kU32:
    case DType::kF32: return 4;
    case DType::kI64:
    case DType::kU64:
    case DType::kF64:
    case DType::kC64: return 8;
    case DType::kC128: return 16;
  }
  return 0;
}

constexpr bool IsFloat8(DType t) { return t >= DType::kF8E4M3FN; }
constexpr bool IsFloat(DType t) { return (t >= DType::kF16 && t <= DType::kF64) || IsFloat8(t); }
constexpr bool IsComplex(DType t) { return t == DType::kC64 || t == DType::kC128; }
constexpr bool IsBool(DType t) { return t == DType::kBool; }
constexpr bool IsUnsigned(DType t) {
  return t == DType::kU8 || t == DType::kU16 || t == DType::kU32 || t == DType::kU64;
}
// Integers proper: bool is not one.
constexpr bool IsInteger(DType t) { return t >= DType::kU8 && t <= DType::kU64; }
// Floats narrower than float32.
constexpr bool IsHalf(DType t) { return t == DType::kF16 || t == DType::kBF16 || IsFloat8(t); }
// float32 for complex64, float64 for complex128, the type itself otherwise.
constexpr DType RealOf(DType t) { return t == DType::kC64 ? DType::kF32 : t == DType::kC128 ? DType::kF64 : t; }
constexpr DType ComplexOf(DType t) { return t == DType::kF64 ? DType::kC128 : DType::kC64; }

// The StableHLO spelling: "f32", "i1", "ui8", "complex<f32>".
constexpr std::string_view Name(DType t) {
  switch (t) {
    case DType::kBool: return "i1";
    case DType::kU8: return "ui8";
    case DType::kI8: return "i8";
    case DType::kI16: return "i16";
    case DType::kI32: return "i32";
    case DType::kI64: return "i64";
    case DType::kU16: return "ui16";
    case DType::kU32: return "ui32";
    case DType::kU64: return "ui64";
    case DType::kF16: return "f16";
    case DType::kBF16: return "bf16";
    case DType::kF32: return "f32";
    case DType::kF64: return "f64";
    case DType::kC64: return "complex<f32>";
    case DType::kC128: return "complex<f64>";
    case DType::kF8E4M3FN: return "f8E4M3FN";
    case DType::kF8E5M2: return "f8E5M2";
    case DType::kF8E4M3FNUZ: return "f8E4M3FNUZ";
    case DType::kF8E5M2FNUZ: return "f8E5M2FNUZ";
    case DType::kF8E8M0FNU: return "f8E8M0FNU";
  }
  return "?";
}

}  // namespace tpu
