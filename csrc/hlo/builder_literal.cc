// Constants and their exact text, promotion.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "hlo/builder_text.h"

namespace tpu::hlo {

namespace {

struct FloatFormat {
  int mantissa_bits, min_exponent, width_bytes;
  double largest;
  uint64_t infinity, nan;  // infinity 0: overflow gives NaN
};

FloatFormat FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF16: return {10, -14, 2, 65504.0, 0x7C00, 0x7E00};
    case DType::kBF16: return {7, -126, 2, 0x1.FEp127, 0x7F80, 0x7FC0};
    case DType::kF32: return {23, -126, 4, std::numeric_limits<float>::max(), 0x7F800000, 0x7FC00000};
    case DType::kF8E4M3FN: return {3, -6, 1, 448.0, 0, 0x7F};
    case DType::kF8E5M2: return {2, -14, 1, 57344.0, 0x7C, 0x7E};
    case DType::kF8E4M3FNUZ: return {3, -7, 1, 240.0, 0, 0x80};
    case DType::kF8E5M2FNUZ: return {2, -15, 1, 57344.0, 0, 0x80};
    case DType::kF8E8M0FNU: return {0, -127, 1, 0x1p127, 0, 0xFF};
    default: return {52, -1022, 8, std::numeric_limits<double>::max(), 0x7FF0000000000000, 0x7FF8000000000000};
  }
}

// Round to nearest, ties to even.
double RoundTo(double value, const FloatFormat& format) {
  if (value == 0 || !std::isfinite(value) || format.width_bytes == 8) return value;
  int exponent;
  std::frexp(value, &exponent);
  int unit = std::max(exponent - 1, format.min_exponent) - format.mantissa_bits;
  double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::abs(rounded) > format.largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
}

void AppendHex(std::string& out, uint64_t bits, int width_bytes) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  out += "0x";
  for (int shift = width_bytes * 8 - 4; shift >= 0; shift -= 4) out += kHex[(bits >> shift) & 15];
}

void AppendFloat(std::string& out, double value, DType dtype) {
  FloatFormat format = FormatOf(dtype);
  // As PyTorch converts a double to the narrow types: through float32.
  if (format.width_bytes < 4) value = static_cast<float>(value);
  value = RoundTo(value, format);
  bool never_negative_zero = dtype == DType::kF8E4M3FNUZ || dtype == DType::kF8E5M2FNUZ;
  if (never_negative_zero && value == 0) value = 0;
  if (dtype == DType::kF8E8M0FNU) {
    // Exponents only: the byte is the biased exponent.
    AppendHex(out,
              value > 0 && std::isfinite(value) ? static_cast<uint64_t>(std::ilogb(value) + 127)
              : value == 0                      ? 0
                                                : 0xFF,
              1);
    return;
  }
  if (!std::isfinite(value)) {
    uint64_t sign = uint64_t{1} << (format.width_bytes * 8 - 1);
    if (std::isnan(value) || !format.infinity) {
      AppendHex(out, format.nan, format.width_bytes);
    } else {
      AppendHex(out, format.infinity | (value < 0 ? sign : 0), format.width_bytes);
    }
    return;
  }
  // The parser reads a double and rounds it. A float32's own shortest text is used where that gives the value back.
  char buffer[40];
  char* end = nullptr;
  if (dtype == DType::kF32) {
    end = std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(value)).ptr;
    double back = 0;
    std::from_chars(buffer, end, back);
    if (static_cast<double>(static_cast<float>(back)) != value) end = nullptr;
  }
  if (!end) end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string_view digits(buffer, end - buffer);
  if (digits.find('.') != std::string_view::npos) {
    out += digits;
    return;
  }
  size_t e = std::min(digits.find('e'), digits.size());
  out.append(digits.substr(0, e)).append(".0").append(digits.substr(e));
}

// As a C conversion would, but saturating where that is undefined.
int64_t ToInteger(double value, DType dtype) {
  if (std::isnan(value)) return 0;
  if (dtype == DType::kU64 && value >= 0x1p63)
    return value >= 0x1p64 ? -1 : static_cast<int64_t>(static_cast<uint64_t>(value));
  if (value >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (value <= -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

}  // namespace

void AppendElement(std::string& out, int64_t value, DType dtype) {
  switch (dtype) {
    case DType::kBool: out += value ? "true" : "false"; return;
    case DType::kU8: AppendInt(out, static_cast<uint8_t>(value)); return;
    case DType::kI8: AppendInt(out, static_cast<int8_t>(value)); return;
    case DType::kI16: AppendInt(out, static_cast<int16_t>(value)); return;
    case DType::kU16: AppendInt(out, static_cast<uint16_t>(value)); return;
    case DType::kI32: AppendInt(out, static_cast<int32_t>(value)); return;
    case DType::kU32: AppendInt(out, static_cast<uint32_t>(value)); return;
    case DType::kI64: AppendInt(out, value); return;
    case DType::kU64: out += std::to_string(static_cast<uint64_t>(value)); return;
    default: AppendElement(out, static_cast<double>(value), dtype);
  }
}

void AppendElement(std::string& out, double value, DType dtype) {
  if (IsBool(dtype)) {
    out += value != 0 ? "true" : "false";
  } else if (IsInteger(dtype)) {
    AppendElement(out, ToInteger(value, dtype), dtype);
  } else if (IsComplex(dtype)) {
    AppendElement(out, std::complex<double>(value, 0.0), dtype);
  } else {
    AppendFloat(out, value, dtype);
  }
}

void AppendElement(std::string& out, std::complex<double> value, DType dtype) {
  if (IsBool(dtype)) return AppendElement(out, int64_t{value != 0.0}, dtype);
  if (!IsComplex(dtype)) return AppendElement(out, value.real(), dtype);
  out += '(';
  AppendFloat(out, value.real(), RealOf(dtype));
  out += ", ";
  AppendFloat(out, value.imag(), RealOf(dtype));
  out += ')';
}

DType Promote(DType a, DType b) {
  if (a == b) return a;
  if (IsBool(a)) return b;
  if (IsBool(b)) return a;
  if (IsComplex(a) || IsComplex(b)) {
    bool wide = RealOf(a) == DType::kF64 || RealOf(b) == DType::kF64;
    return wide ? DType::kC128 : DType::kC64;
  }
  if (IsFloat(a) || IsFloat(b)) {
    if (!IsFloat(a)) return b;
    if (!IsFloat(b)) return a;
    // PyTorch refuses a float8 with another type; here the wider one wins.
    if (IsFloat8(a) != IsFloat8(b)) return IsFloat8(a) ? b : a;
    if (ItemSize(a) == ItemSize(b)) return DType::kF32;
    return ItemSize(a) > ItemSize(b) ? a : b;
  }
  if (IsUnsigned(a) == IsUnsigned(b)) return ItemSize(a) > ItemSize(b) ? a : b;
  // PyTorch defines this for uint8 only; the wider unsigned types follow the same rule.
  DType u = IsUnsigned(a) ? a : b, s = IsUnsigned(a) ? b : a;
  if (ItemSize(s) > ItemSize(u)) return s;
  switch (ItemSize(u)) {
    case 1: return DType::kI16;
    case 2: return DType::kI32;
    default: return DType::kI64;
  }
}

Value Builder::Literal(std::string elements, Type type) {
  elements += "> : ";
  AppendType(elements, type);
  Scope& scope = *scopes_.back();
  if (auto it = scope.constants.find(elements); it != scope.constants.end() && !comparable_)
    return Value(this, it->second);
  Text text(*this, "stablehlo.constant dense<");
  text << elements;
  Value value = Emit(std::move(text), std::move(type));
  values_.back().is_constant = true;
  scope.instructions.back().location.clear();
  scope.constants.emplace(std::move(elements), value.id());
  return value;
}

Value Builder::Const(double value, DType dtype) {
  std::string elements;
  AppendElement(elements, value, dtype);
  return Literal(std::move(elements), {dtype, {}});
}

Value Builder::Const(std::complex<double> value, DType dtype) {
  std::string elements;
  AppendElement(elements, value, dtype);
  return Literal(std::move(elements), {dtype, {}});
}

Value Builder::ConstInt(int64_t value, DType dtype) {
  std::string elements;
  AppendElement(elements, value, dtype);
  return Literal(std::move(elements), {dtype, {}});
}

namespace {

template <typename T>
std::string ListElements(std::span<const T> values, DType dtype) {
  if (values.empty()) return {};
  std::string elements = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) elements += ", ";
    AppendElement(elements, values[i], dtype);
  }
  return elements += ']';
}

}  // namespace

Value Builder::ConstInts(std::span<const int64_t> values, DType dtype) {
  return Literal(ListElements(values, dtype), {dtype, {static_cast<int64_t>(values.size())}});
}

Value Builder::ConstDoubles(std::span<const double> values, DType dtype) {
  return Literal(ListElements(values, dtype), {dtype, {static_cast<int64_t>(values.size())}});
}

Value Builder::Full(std::span<const int64_t> dims, double value, DType dtype) {
  return Full(dims, Const(value, dtype));
}

Value Builder::Full(std::span<const int64_t> dims, Value scalar) {
  if (scalar.rank() != 0) Fail("Full", "a scalar", ToString(scalar.type()));
  return BroadcastTo(scalar, dims);
}

Value Builder::Iota(std::span<const int64_t> dims, int64_t dim, DType dtype) {
  if (dims.empty()) return ConstInt(0, dtype);
  dim = WrapDim("Iota", dim, static_cast<int64_t>(dims.size()));
  if (IsBool(dtype) || IsComplex(dtype) || IsHalf(dtype))
    return Cast(Iota(dims, dim,
                     IsBool(dtype)                  ? DType::kI64
                     : RealOf(dtype) == DType::kF64 ? DType::kF64
                                                    : DType::kF32),
                dtype);
  Type type{dtype, Ints(dims.begin(), dims.end())};
  Text text(*this, "stablehlo.iota dim = ");
  text << dim << " : " << type;
  return Emit(std::move(text), std::move(type));
}

// min over no elements (lowest false) or max over none.
Value Builder::Extreme(DType dtype, bool lowest) {
  if (IsBool(dtype)) return ConstInt(!lowest, dtype);
  if (IsInteger(dtype)) {
    int bits = static_cast<int>(ItemSize(dtype)) * 8;
    if (IsUnsigned(dtype)) return ConstInt(lowest ? 0 : -1, dtype);
    uint64_t low = uint64_t{1} << (bits - 1);
    return ConstInt(static_cast<int64_t>(lowest ? low : low - 1), dtype);
  }
  if (!IsFloat(dtype)) Fail("Max or Min", "an ordered element type", Name(dtype));
  FloatFormat format = FormatOf(dtype);
  double value = IsFloat8(dtype) && !format.infinity ? format.largest : std::numeric_limits<double>::infinity();
  return Const(lowest ? -value : value, dtype);
}

Value Builder::ConstBytes(const Type& type, std::string_view bytes) {
  if (bytes.size() != static_cast<size_t>(NumElements(type.dims)) * ItemSize(type.dtype)) {
    Fail("ConstBytes", "the bytes of " + ToString(type), std::to_string(bytes.size()) + " bytes");
  }
  // MLIR packs i1 into bits; bytes are 0 or 1.
  if (type.dtype == DType::kBool) return Cast(ConstBytes({DType::kU8, type.dims}, bytes), DType::kBool);
  if (bytes.empty()) return Zeros(type);
  std::string elements = "\"0x";
  static constexpr char kHex[] = "0123456789ABCDEF";
  for (unsigned char byte : bytes) {
    elements += kHex[byte >> 4];
    elements += kHex[byte & 15];
  }
  return Literal(elements + '"', type);
}

}  // namespace tpu::hlo
