// What a lowering is, and where it is registered. No torch types: an op's file compiles in a second.
//
//   // e / sum(e) with e = exp(x - max x); subtracting the max keeps exp finite.
//   Value Softmax(Builder& b, Value x, Dim dim, bool /*half_to_float*/) {
//     Value e = b.Exp(x - b.Max(x, dim));
//     return e / b.Sum(e, dim);
//   }
//   LOWER("_softmax", Softmax);
//
// A lowering is a pure function of the op's functional form. The parameters follow the schema's arguments in order and
// their types decide what each is:
//   Value                     a Tensor, or a Scalar as run-time data (a new value does not recompile)
//   optional<Value>           Tensor? or Scalar?
//   vector<Value>             Tensor[] or Scalar[]          vector<optional<Value>>   Tensor?[]
//   Dim, optional<Dim>        a dimension of the first tensor, wrapped into [0, rank)
//   DimList                   int[] of such dimensions (int[1]?, int[]?): `given` is false for None
//   bool int64_t double string_view DType Ints vector<double> Scalar, and optional<> of them: part of the program's key
//   Rng                       the generator's counter (a `Generator?` argument, or one more parameter after the schema's)
//   Ignore                    an argument that cannot change the result (device, layout, pin_memory, memory_format)
// Results: Value, pair/tuple/vector of Value, or Results where some are absent (undefined tensors).
//
// The harness does the rest: half types compute in float32 (unless kExact), the result is checked against PyTorch's meta
// kernel and cast to its dtype, and the in-place, out= and _foreach_ forms are derived. b.Expected(i) is the meta
// kernel's shape and dtype of result i.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "hlo/builder.h"

namespace tpu::lowering {

using hlo::Builder;
using hlo::Ints;
using hlo::Type;
using hlo::Value;

struct Dim {
  int64_t value = 0;
  operator int64_t() const { return value; }  // NOLINT: a Dim is a dimension index
};
struct DimList {
  Ints dims;           // wrapped
  bool given = false;  // false: the argument was None
};
struct Ignore {};
// A Scalar that is part of the key.
struct Scalar {
  std::variant<bool, int64_t, double, std::complex<double>> value;
  bool IsInteger() const { return value.index() <= 1; }
  double ToDouble() const;
  int64_t ToInt() const;
  std::complex<double> ToComplex() const;
  Value ToValue(Builder& b, DType dtype) const;
};

// Philox 4x32-10 (Salmon et al., SC'11) keyed by the generator's (seed, offset). Bits counts what it hands out; the
// generator's offset advances by `used()` rounded up to 4 for each call of the op.
class Rng {
 public:
  Rng(Builder& b, Value seed_and_offset) : b_(&b), state_(seed_and_offset) {}  // ui64[2]
  // Uniform random ui32 words. The words of one op are one stream, whatever the shapes asked for.
  Value Bits(std::span<const int64_t> dims);
  // Uniform in [0, 1) with 24 (float32) or 53 (float64) random bits; half types come from float32.
  Value Uniform(std::span<const int64_t> dims, DType dtype);
  // Standard normal by Box-Muller.
  Value Normal(std::span<const int64_t> dims, DType dtype);
  int64_t used() const { return used_; }

 private:
  Builder* b_;
  Value state_;
  int64_t used_ = 0;
};

using Results = std::vector<std::optional<Value>>;

using OptionalValues = std::vector<std::optional<Value>>;
using Arg = std::variant<std::monostate, Value, std::vector<Value>, OptionalValues, bool, int64_t, double, Ints,
                         std::vector<double>, std::string, DType, Scalar, Rng*>;

// What the kernel must make of one schema argument.
enum class Kind : uint8_t {
  kValue,
  kValueList,
  kOptionalValueList,
  kDim,
  kDimList,
  kBool,
  kInt,
  kDouble,
  kString,
  kDType,
  kInts,
  kDoubles,
  kScalar,
  kRng,
  kIgnore,
};
struct Param {
  Kind kind;
  bool optional = false;
};

enum Flags : uint32_t {
  kDefault = 0,
  // Operands keep their element types: no float32 for half types.
  kExact = 1,
  // Operands are promoted to PyTorch's result type of all of them (at::result_type; if that is integral and the op's
  // result is not, to the result's type) and broadcast to the common shape before the function sees them.
  kPointwise = 2,
  kPointwiseExact = kPointwise | kExact,
  // The function alone decides its results' shapes and types: PyTorch's meta kernel speaks of another device's limits.
  kOwnShape = 4,
  // A number that the result's type cannot hold is an error, not an infinity.
  kNumbersFit = 8,
  // Written in place, or to out=, it may share memory with what it reads only element for element, as TensorIterator's
  // operations; kPointwise ones are such.
  kSamePlaces = 16,
  // It may share none: elements come from elsewhere, by an index.
  kSharesNothing = 32,
  // Written in place, its tensor may be expanded, so that elements share memory: each of them gets the same.
  kExpanded = 64,
  // As kExpanded, with PyTorch's warning that this is deprecated.
  kExpandedWarns = 128,
};

struct Lowering {
  std::string name;  // "add.Tensor"
  uint32_t flags = kDefault;
  std::vector<Param> params;
  bool extra_rng = false;  // an Rng parameter beyond the schema's arguments
  std::function<Results(Builder&, std::span<const Arg>)> emit;
};

// Null when there is none. The registry is filled by static initialisers and constant afterwards.
const Lowering* Find(std::string_view name);
std::vector<const Lowering*> All();
bool Register(Lowering lowering);

namespace internal {

template <typename T>
struct ParamOf;
#define TPU_PARAM(type, k) \
  template <> \
  struct ParamOf<type> { \
    static constexpr Param value{Kind::k}; \
  }
TPU_PARAM(Value, kValue);
TPU_PARAM(std::vector<Value>, kValueList);
TPU_PARAM(OptionalValues, kOptionalValueList);
TPU_PARAM(Dim, kDim);
TPU_PARAM(DimList, kDimList);
TPU_PARAM(bool, kBool);
TPU_PARAM(int64_t, kInt);
TPU_PARAM(double, kDouble);
TPU_PARAM(std::string_view, kString);
TPU_PARAM(DType, kDType);
TPU_PARAM(Ints, kInts);
TPU_PARAM(std::vector<double>, kDoubles);
TPU_PARAM(Scalar, kScalar);
TPU_PARAM(Rng*, kRng);
TPU_PARAM(Ignore, kIgnore);
#undef TPU_PARAM
template <typename T>
struct ParamOf<std::optional<T>> {
  static constexpr Param value{ParamOf<T>::value.kind, true};
};

template <typename T>
struct Unpack {
  static T From(const Arg& arg) {
    if constexpr (std::is_same_v<T, std::string_view>) {
      return std::get<std::string>(arg);
    } else if constexpr (std::is_same_v<T, Dim>) {
      return Dim{std::get<int64_t>(arg)};
    } else if constexpr (std::is_same_v<T, Ignore>) {
      return Ignore{};
    } else if constexpr (std::is_same_v<T, DimList>) {
      const Ints* dims = std::get_if<Ints>(&arg);
      return dims ? DimList{*dims, true} : DimList{};
    } else {
      return std::get<T>(arg);
    }
  }
};
template <typename T>
struct Unpack<std::optional<T>> {
  static std::optional<T> From(const Arg& arg) {
    if (std::holds_alternative<std::monostate>(arg)) return std::nullopt;
    return Unpack<T>::From(arg);
  }
};

inline Results ToResults(Value v) { return {v}; }
inline Results ToResults(Results r) { return r; }
inline Results ToResults(const std::vector<Value>& vs) { return {vs.begin(), vs.end()}; }
template <typename... Ts>
Results ToResults(const std::tuple<Ts...>& t) {
  return std::apply([](const auto&... vs) { return Results{std::optional<Value>(vs)...}; }, t);
}
template <typename A, typename B>
Results ToResults(const std::pair<A, B>& p) {
  return {p.first, p.second};
}
template <size_t N>
Results ToResults(const std::array<Value, N>& vs) {
  return {vs.begin(), vs.end()};
}

template <typename R, typename... Ts>
Lowering Make(std::string name, R (*fn)(Builder&, Ts...), uint32_t flags) {
  Lowering lowering;
  lowering.name = std::move(name);
  lowering.flags = flags;
  lowering.params = {ParamOf<std::decay_t<Ts>>::value...};
  lowering.emit = [fn](Builder& b, std::span<const Arg> args) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return ToResults(fn(b, Unpack<std::decay_t<Ts>>::From(args[I])...));
    }
    (std::index_sequence_for<Ts...>{});
  };
  return lowering;
}

}  // namespace internal

#define TPU_LOWER_CONCAT_(a, b) a##b
#define TPU_LOWER_CONCAT(a, b) TPU_LOWER_CONCAT_(a, b)
// LOWER("name.overload", Function[, flags]): one line beside the function; file scope, inside namespace tpu::lowering.
#define LOWER(name, fn, ...) \
  [[maybe_unused]] static const bool TPU_LOWER_CONCAT(registered_, __COUNTER__) = ::tpu::lowering::Register( \
      ::tpu::lowering::internal::Make(name, +fn, ::tpu::lowering::kDefault __VA_OPT__(|) __VA_ARGS__))

}  // namespace tpu::lowering
