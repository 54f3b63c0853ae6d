// What the reducing families share: which dimensions are meant, and in which type sums are taken.
#pragma once

#include <numeric>

#include "lowering/lowering.h"

namespace tpu::lowering {

inline Ints AllDims(Value x) {
  Ints dims(x.rank());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// The dimensions that PyTorch means: all where the list is absent or empty, none of a 0-d tensor.
inline Ints Reduced(Value x, const DimList& dims) {
  if (x.rank() == 0) return {};
  return dims.dims.empty() ? AllDims(x) : dims.dims;
}
inline Ints Reduced(Value x, Dim dim) { return x.rank() == 0 ? Ints{} : Ints{dim.value}; }

inline int64_t SizeOf(Value x, std::span<const int64_t> dims) {
  int64_t size = 1;
  for (int64_t d : dims) size *= x.dim(d);
  return size;
}

// Builder's sum reads an empty list as all dimensions; here it is none.
inline Value SumOver(Builder& b, Value x, const Ints& dims, bool keep_dims = true) {
  return dims.empty() ? x : b.Sum(x, dims, keep_dims);
}
inline Value MeanOver(Builder& b, Value x, const Ints& dims, bool keep_dims = true) {
  return SumOver(b, x, dims, keep_dims) / static_cast<double>(SizeOf(x, dims));
}

// The type in which result i is accumulated: its own, float32 for a half type.
inline DType Accumulator(const Builder& b, size_t i = 0) {
  DType dtype = b.Expected(i).dtype;
  return IsHalf(dtype) ? DType::kF32 : dtype;
}
inline Value Widened(Builder& b, Value x) { return IsHalf(x.dtype()) ? b.Cast(x, DType::kF32) : x; }

inline std::optional<Value> Widened(Builder& b, const std::optional<Value>& x) {
  return x ? std::optional(Widened(b, *x)) : std::nullopt;
}
template <typename T>
T Widened(Builder&, T attribute) {
  return attribute;
}

// For ops without a meta kernel, registered kExact: `Apply` computes half types in float32 like all others, and gives
// the result the type of the first operand.
template <auto fn>
struct TypedAsFirst;
template <typename... Ts, Value (*fn)(Builder&, Value, Ts...)>
struct TypedAsFirst<fn> {
  static Value Apply(Builder& b, Value first, Ts... rest) {
    return b.Cast(fn(b, Widened(b, first), Widened(b, rest)...), first.dtype());
  }
};

// A 0-d tensor as a vector of one: sorts, scans and searches have a dimension then.
inline Value AtLeast1d(Builder& b, Value x) { return x.rank() == 0 ? b.Reshape(x, Ints{1}) : x; }

// Largest (smallest) over `dims`, NaN wins; booleans order as false < true.
inline Value MaxOver(Builder& b, Value x, const Ints& dims, bool keep_dims = true) {
  return IsBool(x.dtype()) ? b.Any(x, dims, keep_dims) : b.Max(x, dims, keep_dims);
}
inline Value MinOver(Builder& b, Value x, const Ints& dims, bool keep_dims = true) {
  return IsBool(x.dtype()) ? b.All(x, dims, keep_dims) : b.Min(x, dims, keep_dims);
}

// |x|^2 without the square root between.
inline Value SquaredModulus(Builder& b, Value x) {
  return IsComplex(x.dtype()) ? b.Square(b.Real(x)) + b.Square(b.Imag(x)) : b.Square(x);
}

inline Value IsNanOrFalse(Builder& b, Value x) {
  return IsFloat(x.dtype()) ? b.IsNan(x) : b.Full(x.dims(), 0.0, DType::kBool);
}

}  // namespace tpu::lowering
