// What the builder's text computes on the CPU plugin, against C++.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "hlo_builder_runner.h"

namespace tpu::hlo {
namespace {

using enum DType;
using Results = std::vector<Value>;
using Doubles = std::vector<double>;
using C = std::complex<double>;

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

class BuilderNumeric : public testing::Test {
 protected:
  void SetUp() override {
    if (!CpuClient()) GTEST_SKIP() << "TORCHTPU_CPU_PLUGIN is not set";
  }
  Runner r;
  Builder& b = r.b;
};

double Epsilon(DType dtype) {
  switch (dtype) {
    case kF16: return 0x1p-10;
    case kBF16: return 0x1p-7;
    case kF32:
    case kC64: return 0x1p-23;
    default: return 0x1p-52;
  }
}

bool Near(double found, double expected, double tolerance) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found);
  return found == expected || std::abs(found - expected) <= tolerance * std::max(std::abs(expected), 1e-30);
}

void ExpectNear(const Doubles& found, const Doubles& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(Near(found[i], expected[i], tolerance))
        << what << "[" << i << "]: " << found[i] << ", expected " << expected[i];
}

struct UnaryCase {
  const char* name;
  std::function<Value(Builder&, Value)> build;
  std::function<double(double)> real;
  std::function<C(C)> complex;  // empty: not for complex
  Doubles inputs;
  double ulps = 4, complex_ulps = 16;
};

const Doubles kLine{-kInf, -20.5, -2.5, -1.0, -0.3, -1e-4, -0.0, 0.0, 1e-4, 0.3, 0.5, 1.0, 2.5, 20.5, kInf, kNan};
const Doubles kUnit{-1.5, -1.0, -0.9, -0.3, -1e-4, 0.0, 1e-4, 0.3, 0.9, 1.0, 1.5, kNan};
const Doubles kFinite{-20.5, -2.5, -1.0, -0.3, -1e-4, 0.0, 1e-4, 0.3, 0.5, 1.0, 2.5, 20.5};

#define FN(expr) [](auto x) { return expr; }

std::vector<UnaryCase> UnaryCases() {
  auto chlo = [](const char* op) { return [op](Builder& b, Value x) { return b.Chlo(op, {x}); }; };
  return {
      {"exp", [](Builder& b, Value x) { return b.Exp(x); }, FN(std::exp(x)), FN(std::exp(x)), kLine},
      {"expm1", [](Builder& b, Value x) { return b.Expm1(x); }, FN(std::expm1(x)), FN(std::exp(x) - 1.0), kLine},
      {"log", [](Builder& b, Value x) { return b.Log(x); }, FN(std::log(x)), FN(std::log(x)), kLine},
      {"log1p", [](Builder& b, Value x) { return b.Log1p(x); }, FN(std::log1p(x)), FN(std::log(x + 1.0)), kLine},
      {"sqrt", [](Builder& b, Value x) { return b.Sqrt(x); }, FN(std::sqrt(x)), FN(std::sqrt(x)), kLine},
      {"rsqrt", [](Builder& b, Value x) { return b.Rsqrt(x); }, FN(1.0 / std::sqrt(x)), FN(1.0 / std::sqrt(x)), kLine},
      {"cbrt", [](Builder& b, Value x) { return b.Cbrt(x); }, FN(std::cbrt(x)), nullptr, kLine},
      {"sin", [](Builder& b, Value x) { return b.Sin(x); }, FN(std::sin(x)), FN(std::sin(x)), kLine},
      {"cos", [](Builder& b, Value x) { return b.Cos(x); }, FN(std::cos(x)), FN(std::cos(x)), kLine},
      {"tan", [](Builder& b, Value x) { return b.Tan(x); }, FN(std::tan(x)), FN(std::tan(x)), kLine},
      {"tanh", [](Builder& b, Value x) { return b.Tanh(x); }, FN(std::tanh(x)), FN(std::tanh(x)), kLine},
      {"logistic", [](Builder& b, Value x) { return b.Logistic(x); }, FN(1.0 / (1.0 + std::exp(-x))),
       FN(1.0 / (1.0 + std::exp(-x))), kLine},
      {"floor", [](Builder& b, Value x) { return b.Floor(x); }, FN(std::floor(x)), nullptr, kLine},
      {"ceil", [](Builder& b, Value x) { return b.Ceil(x); }, FN(std::ceil(x)), nullptr, kLine},
      {"round", [](Builder& b, Value x) { return b.RoundEven(x); }, FN(std::nearbyint(x)), nullptr, kLine},
      {"trunc", [](Builder& b, Value x) { return b.Trunc(x); }, FN(std::trunc(x)), nullptr, kLine},
      {"sign", [](Builder& b, Value x) { return b.Sign(x); }, FN(std::isnan(x) ? x : double((x > 0) - (x < 0))),
       FN(x == 0.0 ? x : x / std::abs(x)), kLine},
      {"abs", [](Builder& b, Value x) { return b.Abs(x); }, FN(std::abs(x)), nullptr, kLine},
      {"reciprocal", [](Builder& b, Value x) { return b.Reciprocal(x); }, FN(1.0 / x), FN(1.0 / x), kLine},
      {"erf", chlo("erf"), FN(std::erf(x)), nullptr, kLine},
      {"erfc",
       chlo("erfc"),
       FN(std::erfc(x)),
       nullptr,
       {-kInf, -2.5, -1, -0.3, 0, 1e-4, 0.3, 1, 2.5, 8, kInf, kNan},
       16},
      {"lgamma", chlo("lgamma"), FN(std::lgamma(x)), nullptr, {0.3, 0.5, 1.5, 3, 20.5, -0.3, -1.5, kInf, kNan}, 64},
      {"asin", chlo("asin"), FN(std::asin(x)), FN(std::asin(x)), kUnit, 8},
      {"acos", chlo("acos"), FN(std::acos(x)), FN(std::acos(x)), kUnit, 8},
      {"atan", chlo("atan"), FN(std::atan(x)), FN(std::atan(x)), kLine, 8},
      {"sinh", chlo("sinh"), FN(std::sinh(x)), FN(std::sinh(x)), kLine, 8},
      {"cosh", chlo("cosh"), FN(std::cosh(x)), FN(std::cosh(x)), kLine, 8},
      {"asinh", chlo("asinh"), FN(std::asinh(x)), FN(std::asinh(x)), kLine, 8},
      {"acosh", chlo("acosh"), FN(std::acosh(x)), FN(std::acosh(x)), {0.5, 1, 1.0001, 1.5, 20.5, kInf, kNan}, 8},
      {"atanh", chlo("atanh"), FN(std::atanh(x)), FN(std::atanh(x)), kUnit, 8},
  };
}

TEST_F(BuilderNumeric, UnaryReal) {
  for (DType dtype : {kF32, kF64}) {
    Runner run;
    Results results;
    std::vector<UnaryCase> cases = UnaryCases();
    std::vector<Doubles> expected;
    for (UnaryCase& c : cases) {
      results.push_back(c.build(run.b, run.Input(c.inputs, dtype)));
      Doubles e;
      for (double x : c.inputs) {
        double given = dtype == kF32 ? static_cast<float>(x) : x;
        double exact = c.real(given);
        e.push_back(dtype == kF32 ? static_cast<float>(exact) : exact);
      }
      expected.push_back(e);
    }
    auto found = run.Run(results);
    for (size_t i = 0; i < cases.size(); ++i)
      ExpectNear(found[i], expected[i], cases[i].ulps * Epsilon(dtype),
                 std::string(cases[i].name) + " " + std::string(Name(dtype)));
  }
}

// Values from the Digital Library of Mathematical Functions and mpmath.
TEST_F(BuilderNumeric, SpecialFunctions) {
  const double pi = std::acos(-1.0);
  for (DType dtype : {kF32, kF64}) {
    Runner run;
    Builder& b = run.b;
    auto in = [&](Doubles values) { return run.Input(std::move(values), dtype); };
    auto found = run.Run({b.Chlo("digamma", {in({1, 2, 10})}), b.Chlo("polygamma", {in({1, 2}), in({1, 0.5})}),
                          b.Chlo("zeta", {in({2, 3}), in({1, 2})}), b.Chlo("erf_inv", {in({0, 0.5, -0.5, 1, -1})}),
                          b.Chlo("bessel_i1e", {in({0, 1, -1})}), b.Chlo("next_after", {in({1}), in({2})}),
                          b.Chlo("sinh", {in({700, -0.5, 1e-8})})});
    double e = 32 * Epsilon(dtype);
    ExpectNear(found[0], {-0.57721566490153286, 0.42278433509846714, 2.2517525890667211}, e, "digamma");
    ExpectNear(found[1], {pi * pi / 6, -16.828796644234320}, e, "polygamma");
    ExpectNear(found[2], {pi * pi / 6, 0.20205690315959429}, e, "zeta");
    ExpectNear(found[3], {0, 0.47693627620446987, -0.47693627620446987, kInf, -kInf}, e, "erf_inv");
    ExpectNear(found[4], {0, 0.20791041534970845, -0.20791041534970845}, e, "bessel_i1e");
    ExpectNear(found[5], {1 + Epsilon(dtype)}, 0, "next_after");
    ExpectNear(found[6], {dtype == kF32 ? kInf : std::sinh(700.0), std::sinh(-0.5), 1e-8}, 4 * Epsilon(dtype), "sinh");
  }
}

// The error relative to the modulus.
TEST_F(BuilderNumeric, UnaryComplex) {
  const std::vector<C> points{{0.3, 0.7}, {-0.3, 0.7}, {0.3, -0.7}, {-1.5, -2.5}, {2.0, 1e-3}, {0.0, 0.5}, {1.0, 0.5}};
  for (DType dtype : {kC64, kC128}) {
    Runner run;
    Doubles re, im;
    for (C z : points) {
      re.push_back(static_cast<float>(z.real()));
      im.push_back(static_cast<float>(z.imag()));
    }
    Value x = run.b.Complex(run.Input(re, RealOf(dtype)), run.Input(im, RealOf(dtype)));
    std::vector<UnaryCase> cases = UnaryCases();
    std::erase_if(cases, [](const UnaryCase& c) { return !c.complex; });
    Results results;
    for (UnaryCase& c : cases) {
      Value y = c.build(run.b, x);
      results.push_back(run.b.Real(y));
      results.push_back(run.b.Imag(y));
    }
    auto found = run.Run(results);
    for (size_t i = 0; i < cases.size(); ++i)
      for (size_t k = 0; k < re.size(); ++k) {
        C expected = cases[i].complex(C(re[k], im[k])), got(found[2 * i].at(k), found[2 * i + 1].at(k));
        EXPECT_LE(std::abs(got - expected), cases[i].complex_ulps * Epsilon(dtype) * std::abs(expected))
            << cases[i].name << " " << Name(dtype) << " of " << C(re[k], im[k]) << ": " << got << ", expected "
            << expected;
      }
  }
}

TEST_F(BuilderNumeric, BinaryReal) {
  const Doubles x{5.5, -5.5, 0.0, -0.0, kInf, kNan, 2.0, -8.0, 1.0}, y{2.0, 2.0, 0.0, 1.0, -kInf, 1.0, kNan, -3.0, 0.0};
  for (DType dtype : {kF16, kBF16, kF32, kF64}) {
    Runner run;
    Builder& b = run.b;
    Value p = run.Input(x, dtype), q = run.Input(y, dtype);
    auto found = run.Run({p + q, p - q, p * q, p / q, b.Rem(p, q), b.Pow(p, q), b.Max(p, q), b.Min(p, q), b.Atan2(p, q),
                          b.Lt(p, q), b.Ne(p, q), b.Clamp(b.Const(-1.0, dtype), p, q)});
    auto nan_or = [](double a, double c, double value) { return std::isnan(a) || std::isnan(c) ? kNan : value; };
    std::function<double(double, double)> exact[] = {
        [](double a, double c) { return a + c; },
        [](double a, double c) { return a - c; },
        [](double a, double c) { return a * c; },
        [](double a, double c) { return a / c; },
        [](double a, double c) { return std::fmod(a, c); },
        [](double a, double c) { return std::pow(a, c); },
        [&](double a, double c) { return nan_or(a, c, std::max(a, c)); },
        [&](double a, double c) { return nan_or(a, c, std::min(a, c)); },
        [](double a, double c) { return std::atan2(a, c); },
        [](double a, double c) { return double(a < c); },
        [](double a, double c) { return double(a != c); },
        [&](double a, double c) { return nan_or(a, c, std::min(std::max(a, -1.0), c)); }};
    for (size_t k = 0; k < std::size(exact); ++k)
      for (size_t i = 0; i < x.size(); ++i)
        EXPECT_TRUE(Near(found[k].at(i), exact[k](x[i], y[i]), 4 * Epsilon(dtype)))
            << "op " << k << " " << Name(dtype) << " of " << x[i] << ", " << y[i] << ": " << found[k][i];
  }
}

TEST_F(BuilderNumeric, Integers) {
  for (DType dtype : {kU8, kI8, kI16, kI32, kI64, kU16, kU32, kU64}) {
    Runner run;
    Builder& b = run.b;
    bool sign = !IsUnsigned(dtype);
    Value x = run.Input({7, sign ? -7.0 : 9, 0, 100}, dtype), y = run.Input({2, 2, 3, 7}, dtype);
    auto found =
        run.Run({b.Div(x, y), b.Rem(x, y), b.Sign(x), b.Abs(x), b.Min(x, y), b.Lt(x, y), b.Pow(x, b.ConstInt(2, dtype)),
                 b.ShiftLeft(x, b.ConstInt(1, dtype)), b.ShiftRightArithmetic(x, b.ConstInt(1, dtype)), b.PopCount(y),
                 b.Max(x, Ints{}), b.Min(x, Ints{}), b.Sum(y, Ints{}), b.Prod(y, Ints{}), b.ArgMin(x, 0).second,
                 b.CountLeadingZeros(y)});
    int bits = static_cast<int>(ItemSize(dtype)) * 8;
    double m = sign ? -7 : 9;
    auto wrap = [&](double v) {
      if (ItemSize(dtype) > 1) return v;
      return dtype == kU8 ? double(uint8_t(int64_t(v))) : double(int8_t(int64_t(v)));
    };
    std::string what(Name(dtype));
    ExpectNear(found[0], {3, std::trunc(m / 2), 0, 14}, 0, what + " div");
    ExpectNear(found[1], {1, std::fmod(m, 2), 0, 2}, 0, what + " rem");
    ExpectNear(found[2], {1, sign ? -1.0 : 1, 0, 1}, 0, what + " sign");
    ExpectNear(found[3], {7, std::abs(m), 0, 100}, 0, what + " abs");
    ExpectNear(found[4], {2, sign ? m : 2, 0, 7}, 0, what + " min");
    ExpectNear(found[5], {0, sign ? 1.0 : 0, 1, 0}, 0, what + " lt");
    ExpectNear(found[6], {49, m * m, 0, wrap(10000)}, 0, what + " pow");
    ExpectNear(found[7], {14, m * 2, 0, wrap(200)}, 0, what + " shl");
    if (sign) ExpectNear(found[8], {3, -4, 0, 50}, 0, what + " shr");
    ExpectNear(found[9], {1, 1, 2, 3}, 0, what + " popcount");
    ExpectNear(found[10], {100}, 0, what + " max");
    ExpectNear(found[11], {sign ? m : 0}, 0, what + " min");
    ExpectNear(found[12], {14}, 0, what + " sum");
    ExpectNear(found[13], {84}, 0, what + " prod");
    ExpectNear(found[14], {sign ? 1.0 : 2}, 0, what + " argmin");
    ExpectNear(found[15], {bits - 2.0, bits - 2.0, bits - 2.0, bits - 3.0}, 0, what + " clz");
  }
}

TEST_F(BuilderNumeric, CastsFollowC) {
  Value x = r.Input({-1.5, 300.7, 0.0, -129, 2.5, 70000}, kF32), special = r.Input({kNan, kInf, -0.0}, kF32);
  Value z = b.Complex(r.Input({0, 0, 1.5}), r.Input({0, 2, 0}));
  auto found = r.Run({b.Cast(x, kU8), b.Cast(x, kI8), b.Cast(x, kI16), b.Cast(x, kU16), b.Cast(x, kI32),
                      b.Cast(x, kU32), b.Cast(x, kI64), b.Cast(b.Cast(x, kU64), kI64), b.Cast(special, kBool),
                      b.Cast(z, kBool), b.Cast(z, kI32), b.Cast(b.Cast(x, kI64), kU8), b.Cast(b.Cast(x, kC64), kF32),
                      b.Real(b.Cast(b.Cast(x, kC64), kC128)), b.Cast(b.Cast(z, kC128), kF16)});
  ExpectNear(found[0], {255, 44, 0, 127, 2, 112}, 0, "u8");
  ExpectNear(found[1], {-1, 44, 0, 127, 2, 112}, 0, "i8");
  ExpectNear(found[2], {-1, 300, 0, -129, 2, 4464}, 0, "i16");
  ExpectNear(found[3], {65535, 300, 0, 65407, 2, 4464}, 0, "u16");
  ExpectNear(found[4], {-1, 300, 0, -129, 2, 70000}, 0, "i32");
  ExpectNear(found[5], {4294967295, 300, 0, 4294967167, 2, 70000}, 0, "u32");
  ExpectNear(found[6], {-1, 300, 0, -129, 2, 70000}, 0, "i64");
  ExpectNear(found[7], {-1, 300, 0, -129, 2, 70000}, 0, "u64");
  ExpectNear(found[8], {1, 1, 0}, 0, "float to bool");
  ExpectNear(found[9], {0, 1, 1}, 0, "complex to bool");
  ExpectNear(found[10], {0, 0, 1}, 0, "complex to int");
  ExpectNear(found[11], {255, 44, 0, 127, 2, 112}, 0, "i64 to u8");
  Doubles same{-1.5, static_cast<float>(300.7), 0, -129, 2.5, 70000};
  ExpectNear(found[12], same, 0, "through c64");
  ExpectNear(found[13], same, 0, "c64 to c128");
  ExpectNear(found[14], {0, 0, 1.5}, 0, "c128 to f16");
}

TEST_F(BuilderNumeric, NarrowFloats) {
  Doubles values{0.1, -1.7, 3.3, 0.0, 100.0};
  for (DType dtype : {kF16, kBF16, kF8E4M3FN, kF8E5M2, kF8E4M3FNUZ, kF8E5M2FNUZ}) {
    Runner run;
    Builder& b = run.b;
    Value x = run.Input(values, dtype);
    Results constants;
    for (double v : values) constants.push_back(b.Reshape(b.Const(v, dtype), Ints{1}));
    auto found = run.Run({x, b.Concat(constants, 0), b.Eq(x, x), b.IsFinite(x),
                          b.Cast(b.Bitcast(x, ItemSize(dtype) == 1 ? kU8 : kU16), kI32),
                          b.Cast(b.Bitcast(b.Concat(constants, 0), ItemSize(dtype) == 1 ? kU8 : kU16), kI32),
                          b.Cast(x, kI8), b.Cast(x, kBool), b.Cast(b.Cast(x, kBool), dtype)});
    std::string what(Name(dtype));
    ExpectNear(found[1], found[0], 0, what + " constant against cast");
    ExpectNear(found[5], found[4], 0, what + " constant's bits");
    ExpectNear(found[2], {1, 1, 1, 1, 1}, 0, what + " eq");
    ExpectNear(found[3], {1, 1, 1, 1, 1}, 0, what + " finite");
    ExpectNear(found[7], {1, 1, 1, 0, 1}, 0, what + " to bool");
    ExpectNear(found[8], {1, 1, 1, 0, 1}, 0, what + " from bool");
  }
}

TEST_F(BuilderNumeric, ConstantsAreExact) {
  Results all;
  Doubles expected;
  auto add = [&](double v, DType dtype, double e) {
    all.push_back(b.Reshape(b.Cast(b.Const(v, dtype), kF64), Ints{1}));
    expected.push_back(e);
  };
  for (double v : {0.1, 1.0 / 3, 1e-45, 3.4e38, -2.5e-39, 16777217.0}) {
    add(v, kF32, static_cast<float>(v));
    add(v, kF64, v);
  }
  add(5e-324, kF64, 5e-324);
  add(1.7976931348623157e308, kF64, 1.7976931348623157e308);
  add(kInf, kBF16, kInf);
  add(-kInf, kF16, -kInf);
  add(kNan, kF8E5M2, kNan);
  add(6e-8, kF16, 0x1p-24);
  add(65519.99, kF16, 65504);
  add(65519.9999, kF16, kInf);  // float32 rounds it to the tie
  add(2049.0, kF16, 2048);
  add(257.0, kBF16, 256);
  ExpectNear(r.Run(b.Concat(all, 0)), expected, 0, "constant");
}

TEST_F(BuilderNumeric, ReductionsOfSpecials) {
  Value x = r.Input({1, kNan, 3, kNan, -kInf, -kInf, -kInf, -kInf, 2, 5, 5, 1}, Ints{3, 4});
  Value flags = b.Gt(x, 2.0), empty = b.Zeros({kF32, {2, 0}});
  auto [value, index] = b.ArgMax(x, 1);
  auto [low, low_index] = b.ArgMin(x, -1);
  auto [flag, flag_index] = b.ArgMax(flags, 1);
  auto found = r.Run({b.Max(x, Ints{1}), b.Min(x, Ints{1}, false), value, index, low, low_index, flag, flag_index,
                      b.Any(flags, Ints{1}), b.All(x, Ints{}), b.Max(empty, Ints{1}), b.Sum(empty, Ints{1})});
  ExpectNear(found[0], {kNan, -kInf, 5}, 0, "max");
  ExpectNear(found[1], {kNan, -kInf, 1}, 0, "min");
  ExpectNear(found[2], {kNan, -kInf, 5}, 0, "argmax value");
  ExpectNear(found[3], {1, 0, 1}, 0, "argmax");
  ExpectNear(found[4], {kNan, -kInf, 1}, 0, "argmin value");
  ExpectNear(found[5], {1, 0, 3}, 0, "argmin");
  ExpectNear(found[6], {1, 0, 1}, 0, "bool argmax value");
  ExpectNear(found[7], {2, 0, 1}, 0, "bool argmax");
  ExpectNear(found[8], {1, 0, 1}, 0, "any");
  ExpectNear(found[9], {1}, 0, "all");
  ExpectNear(found[10], {-kInf, -kInf}, 0, "empty max");
  ExpectNear(found[11], {0, 0}, 0, "empty sum");
}

TEST_F(BuilderNumeric, ArgMaxOfLongRows) {
  Doubles values(5000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = double((i * 7919) % 1000);
  auto first = double(std::max_element(values.begin(), values.end()) - values.begin());
  ExpectNear(r.Run(b.ArgMax(r.Input(values), 0).second), {first}, 0, "argmax");
}

TEST_F(BuilderNumeric, AssociativeScanOfEveryLength) {
  for (int64_t n : {1, 2, 3, 4, 5, 7, 8, 13}) {
    Runner run;
    Doubles values, sums, suffixes(n), firsts(n, 1);
    for (int64_t i = 0; i < n; ++i) {
      values.push_back(double(i * i - 3));
      sums.push_back(values.back() + (i ? sums.back() : 0));
    }
    for (int64_t i = n; i-- > 0;) suffixes[i] = values[i] + (i + 1 < n ? suffixes[i + 1] : 0);
    Value x = run.Input(values, Ints{1, n});
    auto sum = [](std::span<const Value> p, std::span<const Value> q) { return Results{p[0] + q[0]}; };
    auto any = [](std::span<const Value> p, std::span<const Value> q) {
      return Results{p[0].builder().Or(p[0], q[0])};
    };
    Value flags = run.b.Full(Ints{1, n}, 1.0, kBool);
    auto found = run.Run({run.b.AssociativeScan(std::span(&x, 1), 1, sum)[0],
                          run.b.AssociativeScan(std::span(&x, 1), 1, sum, true)[0],
                          run.b.AssociativeScan(std::span(&flags, 1), 1, any)[0]});
    ExpectNear(found[0], sums, 0, "scan of " + std::to_string(n));
    ExpectNear(found[1], suffixes, 0, "reverse scan of " + std::to_string(n));
    ExpectNear(found[2], firsts, 0, "bool scan of " + std::to_string(n));
  }
}

TEST_F(BuilderNumeric, Products) {
  for (DType dtype : {kBool, kU8, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64, kC64, kC128, kF8E4M3FN, kF8E5M2}) {
    SCOPED_TRACE(Name(dtype));
    Runner run;
    Builder& b = run.b;
    Value x = b.Cast(run.Input({1, 2, 3, 4, 0, 1}, Ints{2, 3}), dtype),
          y = b.Cast(run.Input({1, 0, 0, 1, 2, 1}, Ints{3, 2}), dtype);
    Value stack = b.BroadcastTo(x, Ints{4, 2, 3});
    Value one = b.MatMul(x, y), many = b.MatMul(stack, b.Unsqueeze(y, 0)), rows = b.MatMul(stack, y);
    EXPECT_EQ(one.dtype(), dtype);
    Value conv = b.Convolution(b.Reshape(x, Ints{1, 2, 3}), b.Reshape(y, Ints{1, 2, 3}), {});
    EXPECT_EQ(conv.dtype(), dtype);
    auto found = run.Run({one, b.SliceDim(many, 0, 3, 4), b.SliceDim(rows, 0, 1, 2), conv});
    Doubles expected{7, 5, 6, 1}, correlation{5 + 4 * 0 - 4 + 1};
    correlation = {1 * 1 + 2 * 0 + 3 * 0 + 4 * 1 + 0 * 2 + 1 * 1};
    if (IsBool(dtype)) expected = correlation = {1, 1, 1, 1}, correlation.resize(1);
    ExpectNear(found[0], expected, 0, "matmul");
    ExpectNear(found[1], expected, 0, "batched");
    ExpectNear(found[2], expected, 0, "rows");
    ExpectNear(found[3], correlation, 0, "convolution");
  }
}

TEST_F(BuilderNumeric, HalfProductsAccumulateInFloat32) {
  Value x = b.Full(Ints{1, 4096}, 1.0, kBF16), y = b.Full(Ints{4096, 1}, 1.0, kBF16);
  x = b.Mul(x, r.Input({1}, Ints{1, 1}, kBF16));
  auto found = r.Run({b.MatMul(x, y), b.MatMul(x, y, kF32)});
  ExpectNear(found[0], {4096}, 0, "bf16");
  ExpectNear(found[1], {4096}, 0, "f32");
}

TEST_F(BuilderNumeric, ConvolutionsOfEveryRank) {
  for (int64_t spatial : {1, 2, 3}) {
    Ints dims{1, 2}, window{2, 1};
    for (int64_t i = 0; i < spatial; ++i) {
      dims.push_back(3);
      window.push_back(2);
    }
    for (DType dtype : {kF32, kBF16, kF16, kF64, kI32}) {
      Runner run;
      Builder& b = run.b;
      Value x = b.Mul(b.Full(dims, 1.0, dtype), run.Input({1, 2},
                                                          spatial == 1   ? Ints{2, 1}
                                                          : spatial == 2 ? Ints{2, 1, 1}
                                                                         : Ints{2, 1, 1, 1},
                                                          dtype));
      ConvDims d;
      d.feature_groups = 2;
      d.padding_low.assign(spatial, 1);
      auto found = run.Run(b.Convolution(x, b.Full(window, 1.0, dtype), d));
      double full = std::pow(2.0, double(spatial));
      ASSERT_EQ(found.size(), 2 * size_t(std::pow(3.0, double(spatial)))) << Name(dtype);
      EXPECT_EQ(found.front(), 1) << Name(dtype);
      EXPECT_EQ(found.back(), 2 * full) << Name(dtype);
    }
  }
}

TEST_F(BuilderNumeric, Linalg) {
  for (DType dtype : {kF32, kF64, kC64, kC128}) {
    Runner run;
    Builder& b = run.b;
    Value a = b.Cast(run.Input({4, 2, 2, 5}, Ints{2, 2}), dtype), z = b.Cast(run.Input({2, 5}, Ints{2, 1}), dtype);
    Value l = b.Cholesky(a, true), s = b.TriangularSolve(l, z, true, true, false, "NO_TRANSPOSE");
    l = b.Mul(l, b.Cast(b.ConstInts(Ints{1, 0, 1, 1}), dtype)
                     .builder()
                     .Reshape(b.Cast(b.ConstInts(Ints{1, 0, 1, 1}), dtype), Ints{2, 2}));
    auto found = run.Run({b.Real(l), b.Real(s)});
    ExpectNear(found[0], {2, 0, 1, 2}, 4 * Epsilon(dtype), "cholesky");
    ExpectNear(found[1], {1, 2}, 8 * Epsilon(dtype), "solve");
  }
}

TEST_F(BuilderNumeric, Fft) {
  for (DType dtype : {kF32, kF64}) {
    Runner run;
    Builder& b = run.b;
    Value x = run.Input({1, 2, 0, -1, 3, 1}, Ints{6}, dtype), f = b.Fft(x, "RFFT", Ints{6});
    auto found =
        run.Run({b.Fft(f, "IRFFT", Ints{6}),
                 b.Real(b.Fft(b.Fft(b.Cast(x, ComplexOf(dtype)), "FFT", Ints{6}), "IFFT", Ints{6})), b.Real(f)});
    for (int i = 0; i < 6; ++i) {
      EXPECT_NEAR(found[0].at(i), (Doubles{1, 2, 0, -1, 3, 1}[i]), 1e-6);
      EXPECT_NEAR(found[1].at(i), (Doubles{1, 2, 0, -1, 3, 1}[i]), 1e-6);
    }
    EXPECT_NEAR(found[2].at(0), 6, 1e-6);
  }
}

TEST_F(BuilderNumeric, Indexing) {
  Value x = r.Input({0, 1, 2, 10, 11, 12, 20, 21, 22}, Ints{3, 3});
  Value rows = r.Input({2, 0, 2}, Ints{3}, kI64), along = r.Input({2, 1, 0, 0, 1, 2, 2, 1}, Ints{4, 2}, kI64);
  ScatterDims d;
  d.update_window_dims = {1};
  d.inserted_window_dims = {0};
  d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = 1;
  Value updates = b.Full(Ints{3, 3}, 1.0, kF32);
  Value scattered =
      b.Scatter(x, b.Reshape(rows, Ints{3, 1}), updates, d, [](Builder& b, Value p, Value q) { return b.Add(p, q); });
  Value start[] = {b.ConstInt(1), b.ConstInt(1, kI32)};
  auto found =
      r.Run({b.TakeRows(x, rows), b.TakeRows(x, b.ConstInt(1)), b.TakeAlong(x, 0, along),
             b.TakeAlong(x, 1, b.Transpose(along, Ints{1, 0})), scattered, b.DynamicSlice(x, start, Ints{2, 1}),
             b.UpdateSlice(x, b.Full(Ints{1, 2}, -1.0, kF32), Ints{2, 0}),
             b.Pad(x, b.Const(7.0, kF32), Ints{-1, 0}, Ints{-1, -1})});
  ExpectNear(found[0], {20, 21, 22, 0, 1, 2, 20, 21, 22}, 0, "rows");
  ExpectNear(found[1], {10, 11, 12}, 0, "row");
  ExpectNear(found[2], {20, 11, 0, 1, 10, 21, 20, 11}, 0, "along 0");
  ExpectNear(found[3], {2, 0, 1, 2, 11, 10, 12, 11}, 0, "along 1");
  ExpectNear(found[4], {1, 2, 3, 10, 11, 12, 22, 23, 24}, 0, "scatter");
  ExpectNear(found[5], {11, 21}, 0, "dynamic slice");
  ExpectNear(found[6], {0, 1, 2, 10, 11, 12, -1, -1, 22}, 0, "update");
  ExpectNear(found[7], {10, 11}, 0, "crop");
}

TEST_F(BuilderNumeric, SortScatterWindowOfEveryType) {
  for (DType dtype : {kBool, kU8, kI8, kI16, kI32, kI64, kU64, kF16, kBF16, kF32, kF64, kC64, kF8E5M2}) {
    SCOPED_TRACE(Name(dtype));
    Runner run;
    Builder& b = run.b;
    Value x = b.Cast(run.Input({3, 1, 2, 0}), dtype), i = b.ConstInts(Ints{0, 3, 0}, kI32);
    Results out;
    Results sorted = b.Sort(Results{b.Iota(4, kI32), x}, 0, true, [](Builder& b, std::span<const Value> v) {
      Value p = b.Real(v[2]), q = b.Real(v[3]);
      return b.Lt(p, q);
    });
    out.push_back(sorted[0]);
    ScatterDims d;
    d.inserted_window_dims = {0};
    d.scatter_dims_to_operand_dims = {0};
    d.index_vector_dim = 1;
    out.push_back(
        b.Scatter(x, i, b.Full(Ints{3}, 1.0, dtype), d, [](Builder& b, Value p, Value q) { return b.Add(p, q); }));
    out.push_back(b.Scatter(x, i, b.Full(Ints{3}, 1.0, dtype), d, [](Builder&, Value, Value q) { return q; }));
    Value zero = b.ConstInt(0, dtype);
    WindowDims w;
    w.sizes = {2};
    out.push_back(b.ReduceWindow(std::span(&x, 1), std::span(&zero, 1), w,
                                 [](Builder&, std::span<const Value> v) { return Results{v[0] + v[1]}; })[0]);
    auto found = run.Run(out);
    bool flag = IsBool(dtype);
    ExpectNear(found[0], flag ? Doubles{3, 0, 1, 2} : Doubles{3, 1, 2, 0}, 0, "sort");
    ExpectNear(found[1], flag ? Doubles{1, 1, 1, 1} : Doubles{5, 1, 2, 1}, 0, "scatter add");
    ExpectNear(found[2], {1, 1, flag ? 1.0 : 2, 1}, 0, "scatter");
    ExpectNear(found[3], flag ? Doubles{1, 1, 1} : Doubles{4, 3, 2}, 0, "window");
  }
}

TEST_F(BuilderNumeric, SelectAndScatterSpreadsToTheLargest) {
  Value x = r.Input({1, 4, 2, 3}), g = r.Input({10, 20});
  WindowDims w;
  w.sizes = w.strides = {2};
  Value out = b.SelectAndScatter(
      x, g, b.Const(0.0, kF32), w, [](Builder& b, Value p, Value q) { return b.Ge(p, q); },
      [](Builder& b, Value p, Value q) { return b.Add(p, q); });
  ExpectNear(r.Run(out), {0, 10, 0, 20}, 0, "select_and_scatter");
}

TEST_F(BuilderNumeric, Control) {
  Value limit = r.Input({10}, Ints{}), x = r.Input({1, 2});
  Results loop = b.While(
      Results{b.Const(1.0, kF32), x}, [&](Builder& b, std::span<const Value> v) { return b.Lt(v[0], limit); },
      [&](Builder&, std::span<const Value> v) {
        return Results{v[0] * 2.0, v[1] + x};
      });
  Results branch = b.If(
      b.Gt(limit, 5.0),
      [&] {
        return Results{x * 3.0, limit};
      },
      [&] {
        return Results{x, loop[0]};
      });
  auto found = r.Run({loop[0], loop[1], branch[0], branch[1]});
  ExpectNear(found[0], {16}, 0, "counter");
  ExpectNear(found[1], {5, 10}, 0, "carried");
  ExpectNear(found[2], {3, 6}, 0, "branch");
  ExpectNear(found[3], {10}, 0, "branch");
}

TEST_F(BuilderNumeric, IndexChecks) {
  b.EnableChecks(true);
  Value good = r.Input({0, 4, -5}, kI64), bad = r.Input({0, 4, 7, -9}, kI32);
  b.CheckIndex(good, 0, -5, 5);
  b.CheckIndex(bad, 1, -5, 5);
  ASSERT_EQ(b.checks().size(), 2u);
  auto found = r.Run({b.checks()[0].offender, b.checks()[1].offender});
  EXPECT_EQ(found[0].at(0), 0);
  ExpectNear(found[1], {1, 7}, 0, "offender");
}

}  // namespace
}  // namespace tpu::hlo
