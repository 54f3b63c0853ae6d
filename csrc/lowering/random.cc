// Random tensors by a formula of uniform or normal numbers. The first argument of the functional twins of in-place ops
// (`uniform`, `normal_functional`, ...) gives only shape and type.
#include <cmath>
#include <limits>
#include <numbers>

#include "lowering/distribution.h"
#include "lowering/refused_argument.h"

namespace tpu::lowering {

DType DrawType(DType dtype) { return dtype == DType::kF64 || dtype == DType::kC128 ? DType::kF64 : DType::kF32; }

Value OpenUniform(Builder& b, Rng& rng, std::span<const int64_t> dims, DType dtype) {
  return b.Max(rng.Uniform(dims, dtype), dtype == DType::kF64 ? 0x1p-54 : 0x1p-25);
}

// -log u, and as CUDA does never 0: half an epsilon where u rounds to 1.
Value StandardExponential(Builder& b, Rng& rng, std::span<const int64_t> dims, DType dtype) {
  double half_epsilon = dtype == DType::kF64 ? 0x1p-53 : 0x1p-24;
  return b.Max(-b.Log(1.0 - rng.Uniform(dims, dtype)), half_epsilon);
}

Value Bits64(Builder& b, Rng& rng, std::span<const int64_t> dims) {
  Value low = b.Cast(rng.Bits(dims), DType::kU64), high = b.Cast(rng.Bits(dims), DType::kU64);
  return b.Or(b.ShiftLeft(high, b.ConstInt(32, DType::kU64)), low);
}

namespace {

using OptionalDType = std::optional<DType>;

void Require(bool holds, const char* what) {
  if (!holds) throw RefusedArgument(std::string("expected ") + what);
}

double LargestOf(DType dtype) {
  switch (dtype) {
    case DType::kF16: return 65504;
    case DType::kBF16: return 0x1.FEp127;
    case DType::kF32:
    case DType::kC64: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

// [from, to); what rounds to `to` becomes `from`, as on CUDA.
Value DrawUniform(Builder& b, Rng& rng, const Type& type, double from, double to) {
  if (IsComplex(type.dtype)) {
    Type part{RealOf(type.dtype), type.dims};
    Value re = DrawUniform(b, rng, part, from, to);
    return b.Complex(re, DrawUniform(b, rng, part, from, to));
  }
  Value u = rng.Uniform(type.dims, DrawType(type.dtype));
  Value value = b.Cast(from == 0 && to == 1 ? u : u * (to - from) + from, type.dtype);
  return b.Select(b.Eq(value, to), from, value);
}

// A complex number's parts have half its variance each.
Value DrawNormal(Builder& b, Rng& rng, const Type& type) {
  DType draw = DrawType(type.dtype);
  if (!IsComplex(type.dtype)) return rng.Normal(type.dims, draw);
  Value re = rng.Normal(type.dims, draw), im = rng.Normal(type.dims, draw);
  return b.Complex(re * (std::numbers::sqrt2 * 0.5), im * (std::numbers::sqrt2 * 0.5));
}

// --- in-place ops' functional twins

Value Uniform(Builder& b, Value self, double from, double to, Rng* rng) {
  Require(from <= to, "from <= to");
  Require(to - from <= LargestOf(self.dtype()), "a range that the type can hold");
  return DrawUniform(b, *rng, self.type(), from, to);
}
LOWER("uniform", Uniform, kExact);

Value NormalFunctional(Builder& b, Value self, double mean, double std, Rng* rng) {
  Require(std >= 0, "std >= 0");
  return DrawNormal(b, *rng, self.type()) * std + mean;
}
LOWER("normal_functional", NormalFunctional, kExact);

Value LogNormal(Builder& b, Value self, double mean, double std, Rng* rng) {
  Require(std > 0, "std > 0");
  return b.Exp(DrawNormal(b, *rng, self.type()) * std + mean);
}
LOWER("log_normal", LogNormal, kExact);

Value Exponential(Builder& b, Value self, double lambda, Rng* rng) {
  Require(lambda > 0, "lambda > 0");
  return StandardExponential(b, *rng, self.dims(), DrawType(self.dtype())) * (1 / lambda);
}
LOWER("exponential", Exponential, kExact);

Value Cauchy(Builder& b, Value self, double median, double sigma, Rng* rng) {
  Require(sigma > 0, "sigma > 0");
  Value u = OpenUniform(b, *rng, self.dims(), DrawType(self.dtype()));
  return b.Tan((u - 0.5) * std::numbers::pi) * sigma + median;
}
LOWER("cauchy", Cauchy, kExact);

// The number of trials up to the first success.
Value Geometric(Builder& b, Value self, double p, Rng* rng) {
  Require(0 < p && p < 1, "0 < p < 1");
  Value u = OpenUniform(b, *rng, self.dims(), DrawType(self.dtype()));
  return b.Max(b.Ceil(b.Log(u) * (1 / std::log1p(-p))), 1.0);
}
LOWER("geometric", Geometric, kExact);

Value BernoulliWith(Builder& b, Value probability, std::span<const int64_t> dims, Rng* rng) {
  DType draw = DrawType(probability.dtype());
  return b.Lt(rng->Uniform(dims, draw), b.Cast(probability, draw));
}

Value Bernoulli(Builder& b, Value p, Rng* rng) { return BernoulliWith(b, p, p.dims(), rng); }
Value BernoulliP(Builder& b, Value self, double p, Rng* rng) {
  Require(0 <= p && p <= 1, "0 <= p <= 1");
  return BernoulliWith(b, b.Const(p, DType::kF32), self.dims(), rng);
}
Value BernoulliTensor(Builder& b, Value self, Value p, Rng* rng) { return BernoulliWith(b, p, self.dims(), rng); }
LOWER("bernoulli", Bernoulli, kExact);
LOWER("bernoulli.p", BernoulliP, kExact);
LOWER("bernoulli.Tensor", BernoulliTensor, kExact);

// --- integers

// from, from + 1, ..., from + range - 1; a range of 0 is 2^64. The remainder favours low values by less than 2^-8: a
// range of more than 24 bits is cut from 64 random ones.
Value DrawIntegers(Builder& b, Rng& rng, const Type& type, int64_t from, uint64_t range) {
  Value integer;
  if (range != 0 && range < (uint64_t{1} << 24)) {
    Value bits = b.Rem(rng.Bits(type.dims), b.ConstInt(static_cast<int64_t>(range), DType::kU32));
    integer = b.Cast(bits, DType::kI64);
  } else {
    Value bits = Bits64(b, rng, type.dims);
    if (range != 0) bits = b.Rem(bits, b.Bitcast(b.ConstInt(static_cast<int64_t>(range)), DType::kU64));
    integer = b.Bitcast(bits, DType::kI64);
  }
  return b.Cast(from == 0 ? integer : b.Add(integer, b.ConstInt(from)), type.dtype);
}

// One more than the largest integer up to which a type holds them all.
uint64_t IntegerRange(DType dtype) {
  switch (dtype) {
    case DType::kBool: return 2;
    case DType::kBF16: return (1 << 8) + 1;
    case DType::kF16: return (1 << 11) + 1;
    case DType::kF32: return (1 << 24) + 1;
    case DType::kF64: return (uint64_t{1} << 53) + 1;
    default: break;
  }
  const size_t bits = ItemSize(dtype) * 8 - (IsUnsigned(dtype) ? 0 : 1);
  return bits < 64 ? uint64_t{1} << bits : 0;  // 0 stands for 2^64
}

Value Random(Builder& b, Value self, Rng* rng) {
  return DrawIntegers(b, *rng, self.type(), 0, IntegerRange(self.dtype()));
}
LOWER("random", Random, kExact);

Value RandomTo(Builder& b, Value self, int64_t to, Rng* rng) {
  Require(to > 0, "to > 0");
  return DrawIntegers(b, *rng, self.type(), 0, static_cast<uint64_t>(to));
}
LOWER("random.to", RandomTo, kExact);

Value RandomFrom(Builder& b, Value self, int64_t from, std::optional<int64_t> to, Rng* rng) {
  Require(!to || from < *to, "from < to");
  uint64_t end = to ? static_cast<uint64_t>(*to) : self.dtype() == DType::kU64 ? 0 : IntegerRange(self.dtype());
  return DrawIntegers(b, *rng, self.type(), from, end - static_cast<uint64_t>(from));
}
LOWER("random.from", RandomFrom, kExact);

// --- factories: `Draw` makes a tensor of the expected type. Each comes with the default generator or a given one.

using Draw = Value (*)(Builder&, Rng&, const Type&);
Value Rand(Builder& b, Rng& rng, const Type& type) { return DrawUniform(b, rng, type, 0, 1); }

template <Draw draw>
Value Sized(Builder& b, Ints, OptionalDType, Ignore, Ignore, Ignore, Rng* rng) {
  return draw(b, *rng, b.Expected());
}
template <Draw draw>
Value SizedFrom(Builder& b, Ints, Rng* rng, OptionalDType, Ignore, Ignore, Ignore) {
  return draw(b, *rng, b.Expected());
}
template <Draw draw>
Value Like(Builder& b, Value, OptionalDType, Ignore, Ignore, Ignore, Ignore, Rng* rng) {
  return draw(b, *rng, b.Expected());
}
template <Draw draw>
Value LikeFrom(Builder& b, Value, Rng* rng, OptionalDType, Ignore, Ignore, Ignore, Ignore) {
  return draw(b, *rng, b.Expected());
}
LOWER("rand", Sized<Rand>, kExact);
LOWER("rand.generator", SizedFrom<Rand>, kExact);
LOWER("rand_like", Like<Rand>, kExact);
LOWER("rand_like.generator", LikeFrom<Rand>, kExact);
LOWER("randn", Sized<DrawNormal>, kExact);
LOWER("randn.generator", SizedFrom<DrawNormal>, kExact);
LOWER("randn_like", Like<DrawNormal>, kExact);
LOWER("randn_like.generator", LikeFrom<DrawNormal>, kExact);

Value RandInt(Builder& b, Rng* rng, int64_t low, int64_t high) {
  return DrawIntegers(b, *rng, b.Expected(), low, static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
}

Value RandIntTo(Builder& b, int64_t high, Ints, OptionalDType, Ignore, Ignore, Ignore, Rng* rng) {
  return RandInt(b, rng, 0, high);
}
Value RandIntToFrom(Builder& b, int64_t high, Ints, Rng* rng, OptionalDType, Ignore, Ignore, Ignore) {
  return RandInt(b, rng, 0, high);
}
Value RandIntBetween(Builder& b, int64_t low, int64_t high, Ints, OptionalDType, Ignore, Ignore, Ignore, Rng* rng) {
  return RandInt(b, rng, low, high);
}
Value RandIntBetweenFrom(Builder& b, int64_t low, int64_t high, Ints, Rng* rng, OptionalDType, Ignore, Ignore, Ignore) {
  return RandInt(b, rng, low, high);
}
LOWER("randint", RandIntTo, kExact);
LOWER("randint.generator", RandIntToFrom, kExact);
LOWER("randint.low", RandIntBetween, kExact);
LOWER("randint.low_generator", RandIntBetweenFrom, kExact);

Value RandIntLike(Builder& b, Value, int64_t high, OptionalDType, Ignore, Ignore, Ignore, Ignore, Rng* rng) {
  return RandInt(b, rng, 0, high);
}
Value RandIntLikeFrom(Builder& b, Value, int64_t high, Rng* rng, OptionalDType, Ignore, Ignore, Ignore, Ignore) {
  return RandInt(b, rng, 0, high);
}
Value RandIntLikeBetween(Builder& b, Value, int64_t low, int64_t high, OptionalDType, Ignore, Ignore, Ignore, Ignore,
                         Rng* rng) {
  return RandInt(b, rng, low, high);
}
Value RandIntLikeBetweenFrom(Builder& b, Value, int64_t low, int64_t high, Rng* rng, OptionalDType, Ignore, Ignore,
                             Ignore, Ignore) {
  return RandInt(b, rng, low, high);
}
LOWER("randint_like", RandIntLike, kExact);
LOWER("randint_like.generator", RandIntLikeFrom, kExact);
LOWER("randint_like.low_dtype", RandIntLikeBetween, kExact);
LOWER("randint_like.low_generator_dtype", RandIntLikeBetweenFrom, kExact);

// The bound is a tensor of one element.
Value RandIntLikeTensorFrom(Builder& b, Value, Value high, Rng* rng, OptionalDType, Ignore, Ignore, Ignore, Ignore) {
  Value range = b.Cast(b.Reshape(high, Ints{}), DType::kU64);
  return b.Cast(b.Rem(Bits64(b, *rng, b.Expected().dims), range), b.Expected().dtype);
}
Value RandIntLikeTensor(Builder& b, Value self, Value high, OptionalDType dtype, Ignore, Ignore, Ignore, Ignore,
                        Rng* rng) {
  return RandIntLikeTensorFrom(b, self, high, rng, dtype, {}, {}, {}, {});
}
LOWER("randint_like.Tensor", RandIntLikeTensor, kExact);
LOWER("randint_like.Tensor_generator", RandIntLikeTensorFrom, kExact);

// --- normal.*: means and deviations per element

Value NormalFloatFloat(Builder& b, double mean, double std, Ints, Rng* rng, OptionalDType, Ignore, Ignore, Ignore) {
  Require(std >= 0, "std >= 0");
  return DrawNormal(b, *rng, b.Expected()) * std + mean;
}
LOWER("normal.float_float", NormalFloatFloat, kExact);

Value NormalTensors(Builder& b, Value mean, Value std, Rng* rng) {
  return b.Add(b.Mul(DrawNormal(b, *rng, b.Expected()), std), mean);
}
LOWER("normal.Tensor_Tensor", NormalTensors);

Value NormalMeans(Builder& b, Value mean, double std, Rng* rng) {
  Require(std >= 0, "std >= 0");
  return b.Add(DrawNormal(b, *rng, b.Expected()) * std, mean);
}
LOWER("normal.Tensor_float", NormalMeans);

Value NormalDeviations(Builder& b, double mean, Value std, Rng* rng) {
  return b.Mul(DrawNormal(b, *rng, b.Expected()), std) + mean;
}
LOWER("normal.float_Tensor", NormalDeviations);

}  // namespace
}  // namespace tpu::lowering
