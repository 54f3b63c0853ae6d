#include "distributed/reduction.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e4m3fnuz.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Float8_e5m2fnuz.h>
#include <c10/util/Float8_e8m0fnu.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <complex>
#include <string>
#include <type_traits>

namespace tpu::distributed {
namespace {

struct Truth {
  uint8_t value;
};

// What elements are combined in.
template <typename T>
struct Arithmetic {
  using type = T;
};
template <typename T>
requires(std::is_class_v<T>&& std::is_convertible_v<T, float>) struct Arithmetic<T> {
  using type = float;
};
template <>
struct Arithmetic<Truth> {
  using type = uint8_t;
};

template <typename T>
typename Arithmetic<T>::type Load(T x) {
  return static_cast<typename Arithmetic<T>::type>(x);
}
inline uint8_t Load(Truth x) { return x.value != 0; }
template <typename T>
void Store(T& to, typename Arithmetic<T>::type x) {
  to = static_cast<T>(x);
}
inline void Store(Truth& to, uint8_t x) { to.value = x != 0; }

template <typename A>
struct IsComplexType : std::false_type {};
template <typename A>
struct IsComplexType<std::complex<A>> : std::true_type {};

// Integers wrap around, which only unsigned ones may.
template <typename A>
A Add(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    using U = std::make_unsigned_t<A>;
    return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}
template <typename A>
A Multiply(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}
// A NaN stays one.
template <typename A>
A Minimum(A a, A b) {
  if constexpr (std::is_floating_point_v<A>) return a != a ? a : (b != b ? b : (b < a ? b : a));
  return b < a ? b : a;
}
template <typename A>
A Maximum(A a, A b) {
  if constexpr (std::is_floating_point_v<A>) return a != a ? a : (b != b ? b : (a < b ? b : a));
  return a < b ? b : a;
}

constexpr int64_t kBlock = 1024;  // elements whose accumulators stay in the first-level cache

template <typename T, typename Combine>
void Fold(std::span<const ConstBytes> sources, Bytes out, int64_t divisor, const Combine& combine) {
  using A = typename Arithmetic<T>::type;
  const int64_t count = static_cast<int64_t>(out.size() / sizeof(T));
  A accumulated[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    const T* first = reinterpret_cast<const T*>(sources.front().data()) + begin;
    for (int64_t i = 0; i < n; ++i) accumulated[i] = Load(first[i]);
    for (const ConstBytes& source : sources.subspan(1)) {
      const T* next = reinterpret_cast<const T*>(source.data()) + begin;
      for (int64_t i = 0; i < n; ++i) accumulated[i] = combine(accumulated[i], Load(next[i]));
    }
    if (divisor > 1) {
      for (int64_t i = 0; i < n; ++i) accumulated[i] = accumulated[i] / static_cast<A>(divisor);
    }
    T* to = reinterpret_cast<T*>(out.data()) + begin;
    for (int64_t i = 0; i < n; ++i) Store(to[i], accumulated[i]);
  }
}

template <typename T>
void ReduceTyped(Reduction reduction, std::span<const ConstBytes> sources, Bytes out) {
  using A = typename Arithmetic<T>::type;
  const auto fold = [&](const auto& combine, int64_t divisor = 1) { Fold<T>(sources, out, divisor, combine); };
  const auto sum = [](A a, A b) { return Add(a, b); };
  if constexpr (std::is_same_v<T, Truth>) {
    switch (reduction) {
      case Reduction::kSum:
      case Reduction::kMax:
      case Reduction::kOr: return fold([](A a, A b) { return static_cast<A>(a | b); });
      case Reduction::kXor: return fold([](A a, A b) { return static_cast<A>(a ^ b); });
      default: return fold([](A a, A b) { return static_cast<A>(a & b); });
    }
  } else {
    switch (reduction) {
      case Reduction::kSum: return fold(sum);
      case Reduction::kMean: return fold(sum, static_cast<int64_t>(sources.size()));
      case Reduction::kProduct: return fold([](A a, A b) { return Multiply(a, b); });
      default: break;
    }
    if constexpr (!IsComplexType<A>::value) {
      if (reduction == Reduction::kMin) return fold([](A a, A b) { return Minimum(a, b); });
      if (reduction == Reduction::kMax) return fold([](A a, A b) { return Maximum(a, b); });
    }
    if constexpr (std::is_integral_v<A>) {
      if (reduction == Reduction::kAnd) return fold([](A a, A b) { return static_cast<A>(a & b); });
      if (reduction == Reduction::kOr) return fold([](A a, A b) { return static_cast<A>(a | b); });
      if (reduction == Reduction::kXor) return fold([](A a, A b) { return static_cast<A>(a ^ b); });
    }
  }
}

template <typename Body>
void Dispatch(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kBool: return body(Truth());
    case DType::kU8: return body(uint8_t());
    case DType::kI8: return body(int8_t());
    case DType::kI16: return body(int16_t());
    case DType::kI32: return body(int32_t());
    case DType::kI64: return body(int64_t());
    case DType::kU16: return body(uint16_t());
    case DType::kU32: return body(uint32_t());
    case DType::kU64: return body(uint64_t());
    case DType::kF16: return body(c10::Half());
    case DType::kBF16: return body(c10::BFloat16());
    case DType::kF32: return body(float());
    case DType::kF64: return body(double());
    case DType::kC64: return body(std::complex<float>());
    case DType::kC128: return body(std::complex<double>());
    case DType::kF8E4M3FN: return body(c10::Float8_e4m3fn());
    case DType::kF8E5M2: return body(c10::Float8_e5m2());
    case DType::kF8E4M3FNUZ: return body(c10::Float8_e4m3fnuz());
    case DType::kF8E5M2FNUZ: return body(c10::Float8_e5m2fnuz());
    case DType::kF8E8M0FNU: return body(c10::Float8_e8m0fnu());
  }
}

}  // namespace

Status CheckReduction(Reduction reduction, DType dtype) {
  const bool bitwise = reduction >= Reduction::kAnd;
  const auto refuse = [&](const char* what) {
    return Status(Code::kInvalidArgument,
                  std::string("reduction: ") + what + " of " + std::string(Name(dtype)) + " is not defined");
  };
  if (bitwise && !IsInteger(dtype) && !IsBool(dtype)) return refuse("a bitwise operation");
  if (IsComplex(dtype) && (reduction == Reduction::kMin || reduction == Reduction::kMax)) return refuse("an order");
  if (IsBool(dtype) && reduction == Reduction::kMean) return refuse("an average");
  return {};
}

void Reduce(Reduction reduction, DType dtype, std::span<const ConstBytes> sources, Bytes out) {
  Dispatch(dtype, [&](auto element) { ReduceTyped<decltype(element)>(reduction, sources, out); });
}

void Scale(DType dtype, double factor, ConstBytes in, Bytes out) {
  Dispatch(dtype, [&](auto element) {
    using T = decltype(element);
    using A = typename Arithmetic<T>::type;
    const T* from = reinterpret_cast<const T*>(in.data());
    T* to = reinterpret_cast<T*>(out.data());
    for (size_t i = 0; i < out.size() / sizeof(T); ++i)
      Store(to[i], static_cast<A>(Load(from[i]) * static_cast<A>(factor)));
  });
}

}  // namespace tpu::distributed
