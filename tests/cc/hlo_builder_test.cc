// The builder's text against golden/NAME.mlir (TORCHTPU_UPDATE_GOLDEN=1 rewrites them), all of which the CPU plugin compiles.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "hlo/fingerprint.h"
#include "hlo_builder_runner.h"

namespace tpu::hlo {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

using Results = std::vector<Value>;

struct Golden {
  const char* name;
  std::function<Results(Builder&)> build;
};

Value F32(Builder& b, Ints dims) { return b.Parameter({DType::kF32, std::move(dims)}); }

Results Two(const std::pair<Value, Value>& pair) { return {pair.first, pair.second}; }

const Golden kGoldens[] = {
    {"add_broadcast",
     [](Builder& b) {
       return Results{F32(b, {2, 3}) + F32(b, {3})};
     }},
    {"promote_int_half",
     [](Builder& b) {
       return Results{b.Parameter({DType::kI64, {4}}) * b.Parameter({DType::kBF16, {4}}) - 0.1};
     }},
    {"axpy_donated",
     [](Builder& b) {
       Value x = F32(b, {8}), y = F32(b, {8}), a = F32(b, {});
       b.Donate(1, 0);
       b.Exp(x);  // dead
       return Results{y + a * x};
     }},
    {"constants_float",
     [](Builder& b) {
       Results out;
       for (DType t : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64})
         for (double v : {0.1, -0.0, kInf, -kInf, kNan, 1e30, 65519.0}) out.push_back(b.Const(v, t));
       return out;
     }},
    {"constants_float8",
     [](Builder& b) {
       Results out;
       for (DType t : {DType::kF8E4M3FN, DType::kF8E5M2, DType::kF8E4M3FNUZ, DType::kF8E5M2FNUZ})
         for (double v : {0.1, -0.0, kInf, kNan, 1e30, -1.5}) out.push_back(b.Const(v, t));
       return out;
     }},
    {"constants_other",
     [](Builder& b) {
       return Results{b.Const(300.0, DType::kU8),
                      b.Const(-1.0, DType::kU64),
                      b.ConstInt(-1, DType::kU8),
                      b.ConstInt(std::numeric_limits<int64_t>::min()),
                      b.Const(1.0, DType::kBool),
                      b.Const(std::complex<double>(0.5, -kInf), DType::kC64),
                      b.Const(2.0, DType::kC128),
                      b.ConstInts(Ints{1, -2, 3}, DType::kI32),
                      b.ConstInts({}, DType::kI64),
                      b.ConstDoubles(std::vector<double>{1.0, kNan, 0.25}, DType::kF32),
                      b.Full(Ints{2, 0}, 1.0, DType::kF32),
                      b.Iota(Ints{2, 3}, -1, DType::kI32),
                      b.Iota(4, DType::kBF16)};
     }},
    {"softmax",
     [](Builder& b) {
       Value x = F32(b, {4, 8}), e = b.Exp(x - b.Max(x, Ints{-1}));
       return Results{e / b.Sum(e, -1)};
     }},
    {"casts",
     [](Builder& b) {
       Value x = F32(b, {4}), c = b.Parameter({DType::kC64, {4}}), h = b.Parameter({DType::kF8E5M2, {4}});
       return Results{b.Cast(x, DType::kBool),   b.Cast(x, DType::kU8),
                      b.Cast(x, DType::kU64),    b.Cast(x, DType::kC128),
                      b.Cast(c, DType::kBool),   b.Cast(c, DType::kI32),
                      b.Cast(h, DType::kI16),    b.Cast(b.Cast(x, DType::kI64), DType::kF16),
                      b.Bitcast(x, DType::kI32), b.Bitcast(x, DType::kU8)};
     }},
    {"unary",
     [](Builder& b) {
       Value x = F32(b, {3});
       return Results{b.Trunc(x),    b.Sign(x),       b.Abs(x), b.IsNan(x), b.IsInf(x),
                      b.IsFinite(x), b.Reciprocal(x), b.Erf(x), b.Expm1(x)};
     }},
    {"complex",
     [](Builder& b) {
       Value z = b.Complex(F32(b, {3}), F32(b, {3}));
       return Results{b.Conj(z), b.Abs(z), b.Imag(b.Exp(z)), b.IsFinite(z), b.Eq(z, b.Const(0.0, DType::kF32))};
     }},
    {"shapes",
     [](Builder& b) {
       Value x = F32(b, {2, 3, 4});
       return Results{b.Flatten(x),
                      b.SwapDims(x, 0, -1),
                      b.Unsqueeze(x, -1),
                      b.SliceDim(x, 1, 0, 3, 2),
                      b.Reverse(x, Ints{-1}),
                      b.Concat(Results{x, x}, 1),
                      b.Pad(x, b.Const(0.0, DType::kF32), Ints{-1, 0, 1}, Ints{0, 2, -1}, Ints{0, 1, 0}),
                      b.UpdateSlice(x, F32(b, {1, 2, 2}), Ints{1, 1, 0})};
     }},
    {"reduce",
     [](Builder& b) {
       Value x = F32(b, {2, 3}), n = b.Parameter({DType::kI8, {2, 3}});
       return Results{b.Sum(x, Ints{}),  b.Prod(x, Ints{0}, false), b.Min(n, Ints{1}),
                      b.All(n, Ints{0}), b.Any(x, Ints{}, false),   b.Max(n, Ints{0})};
     }},
    {"argmax",
     [](Builder& b) {
       return Two(b.ArgMax(F32(b, {4, 5}), 1));
     }},
    {"max_pool",
     [](Builder& b) {
       Value x = F32(b, {1, 2, 6, 6}), init = b.Const(-kInf, DType::kF32);
       return b.ReduceWindow(std::span(&x, 1), std::span(&init, 1),
                             {.sizes = {1, 1, 3, 3},
                              .strides = {1, 1, 2, 2},
                              .base_dilations = {},
                              .window_dilations = {},
                              .padding_low = {0, 0, 1, 1},
                              .padding_high = {0, 0, 1, 1}},
                             [](Builder& b, std::span<const Value> v) { return Results{b.Max(v[0], v[1])}; });
     }},
    {"max_pool_backward",
     [](Builder& b) {
       Value x = F32(b, {1, 1, 4, 4}), g = F32(b, {1, 1, 2, 2});
       WindowDims w{.sizes = {1, 1, 2, 2},
                    .strides = {1, 1, 2, 2},
                    .base_dilations = {},
                    .window_dilations = {},
                    .padding_low = {},
                    .padding_high = {}};
       return Results{b.SelectAndScatter(
           x, g, b.Const(0.0, DType::kF32), w, [](Builder& b, Value p, Value q) { return b.Ge(p, q); },
           [](Builder& b, Value p, Value q) { return b.Add(p, q); })};
     }},
    {"cumsum",
     [](Builder& b) {
       Value x = F32(b, {7});
       return b.AssociativeScan(std::span(&x, 1), 0, [](std::span<const Value> p, std::span<const Value> q) {
         return Results{p[0] + q[0]};
       });
     }},
    {"matmul",
     [](Builder& b) {
       Value x = F32(b, {5, 2, 3}), y = F32(b, {3, 4}), h = b.Parameter({DType::kBF16, {2, 3}});
       return Results{b.MatMul(x, y), b.MatMul(x, F32(b, {1, 3, 4})), b.MatMul(h, b.Cast(y, DType::kBF16)),
                      b.MatMul(h, b.Cast(y, DType::kBF16), DType::kF32)};
     }},
    {"convolution",
     [](Builder& b) {
       Value x = F32(b, {1, 4, 6, 6}), w = F32(b, {8, 2, 3, 3});
       ConvDims d;
       d.strides = {2, 1};
       d.padding_low = d.padding_high = {1, 1};
       d.feature_groups = 2;
       ConvDims layouts;
       layouts.lhs_layout = {0, 2, 1};
       layouts.rhs_layout = {2, 1, 0};
       layouts.out_layout = {0, 2, 1};
       layouts.reversal = {true};
       return Results{b.Convolution(x, w, d), b.Convolution(b.Parameter({DType::kBF16, {2, 5, 3}}),
                                                            b.Parameter({DType::kBF16, {2, 3, 4}}), layouts)};
     }},
    {"linalg",
     [](Builder& b) {
       Value a = F32(b, {2, 3, 3}), z = F32(b, {2, 3, 1});
       return Results{b.Cholesky(a, true), b.TriangularSolve(a, z, true, true, false, "NO_TRANSPOSE"),
                      b.Fft(F32(b, {2, 8}), "RFFT", Ints{8}),
                      b.Fft(b.Parameter({DType::kC64, {4, 5}}), "IRFFT", Ints{8})};
     }},
    {"take",
     [](Builder& b) {
       Value x = F32(b, {5, 3}), i = b.Parameter({DType::kI64, {2, 2}}), j = b.Parameter({DType::kI64, {4, 2}});
       return Results{b.TakeRows(x, i), b.TakeAlong(x, 0, j)};
     }},
    {"scatter_add",
     [](Builder& b) {
       Value x = F32(b, {5, 3}), i = b.Parameter({DType::kI32, {4, 1}}), u = F32(b, {4, 3});
       ScatterDims d;
       d.update_window_dims = {1};
       d.inserted_window_dims = {0};
       d.scatter_dims_to_operand_dims = {0};
       d.index_vector_dim = 1;
       return Results{b.Scatter(x, i, u, d, [](Builder& b, Value p, Value q) { return b.Add(p, q); })};
     }},
    {"sort",
     [](Builder& b) {
       Value x = F32(b, {4, 5});
       return b.Sort(Results{x, b.Iota(x.dims(), 1)}, 1, true,
                     [](Builder& b, std::span<const Value> v) { return b.Lt(v[0], v[1]); });
     }},
    {"while_captures",
     [](Builder& b) {
       Value step = F32(b, {}), limit = F32(b, {});
       Value unused = b.Exp(step);
       (void)unused;
       Value doubled = step * 2.0;
       return b.While(
           Results{b.Const(0.0, DType::kF32), b.ConstInt(0)},
           [&](Builder& b, std::span<const Value> v) { return b.Lt(v[0], limit); },
           [&](Builder& b, std::span<const Value> v) {
             b.Sin(v[0]);  // dead
             return Results{v[0] + doubled, b.Add(v[1], b.ConstInt(1))};
           });
     }},
    {"if_nested",
     [](Builder& b) {
       Value x = F32(b, {4}), p = b.Parameter({DType::kBool, {}});
       return b.If(
           p, [&] { return Results{x + 1.0}; },
           [&] {
             return b.If(
                 b.Not(p), [&] { return Results{b.Sum(x, Ints{}) * x}; }, [&] { return Results{x}; });
           });
     }},
    {"custom_call",
     [](Builder& b) {
       Value x = F32(b, {4});
       std::vector<Type> types{x.type(), {DType::kF32, {}}};
       Results out =
           b.CustomCall("ProbeTarget", std::span(&x, 1), types, "api_version = 2 : i32, backend_config = \"a%b\"");
       return Results{out[1], out[0], b.OptimizationBarrier(out[0])};
     }},
    {"locations",
     [](Builder& b) {
       Value x = F32(b, {4});
       b.SetLocation("aten.exp at \"train\\.py\":12");
       Value y = b.Exp(x);
       b.SetLocation("");
       return Results{y + 1.0};
     }},
    {"index_check",
     [](Builder& b) {
       Value x = F32(b, {5, 3}), i = b.Parameter({DType::kI64, {2}});
       b.EnableChecks(true);
       b.SetCheckedOp("aten.index_select");
       b.CheckIndex(i, 0, -5, 5);
       return Results{b.TakeRows(x, i), b.checks().at(0).offender};
     }},
};

std::string Build(const Golden& golden) {
  Builder b;
  Results results = golden.build(b);
  return b.Finish(results, golden.name);
}

class BuilderGolden : public testing::TestWithParam<Golden> {};

std::string ReadFile(const std::filesystem::path& path) {
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

TEST_P(BuilderGolden, Matches) {
  const char* folder = std::getenv("TORCHTPU_GOLDEN");
  if (!folder) GTEST_SKIP() << "TORCHTPU_GOLDEN is not set";
  std::filesystem::path path = std::filesystem::path(folder) / (std::string(GetParam().name) + ".mlir");
  std::string text = Build(GetParam());
  EXPECT_EQ(text, Build(GetParam())) << "not deterministic";
  if (std::getenv("TORCHTPU_UPDATE_GOLDEN")) std::ofstream(path) << text;
  EXPECT_EQ(text, ReadFile(path));
}

TEST_P(BuilderGolden, Compiles) {
  auto client = CpuClient();
  if (!client) GTEST_SKIP() << "TORCHTPU_CPU_PLUGIN is not set";
  if (GetParam().name == std::string("custom_call")) GTEST_SKIP() << "its target does not exist";
  std::string text = Build(GetParam());
  auto executable = client->Compile(text, {});
  EXPECT_TRUE(executable.ok()) << executable.status().message() << "\n" << text;
}

INSTANTIATE_TEST_SUITE_P(All, BuilderGolden, testing::ValuesIn(kGoldens),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(BuilderTypes, PromotionIsPyTorchs) {
  using enum DType;
  struct {
    DType a, b, expected;
  } cases[] = {{kBool, kBool, kBool}, {kBool, kU8, kU8},   {kU8, kI8, kI16},    {kU8, kI16, kI16},
               {kI8, kI64, kI64},     {kI64, kF16, kF16},  {kF16, kBF16, kF32}, {kBF16, kF32, kF32},
               {kF32, kF64, kF64},    {kI64, kC64, kC64},  {kF64, kC64, kC128}, {kF16, kC64, kC64},
               {kC64, kC128, kC128},  {kBool, kF32, kF32}, {kU8, kI32, kI32},   {kF8E5M2, kF8E5M2, kF8E5M2},
               {kU32, kI64, kI64}};
  for (auto& c : cases) {
    EXPECT_EQ(Promote(c.a, c.b), c.expected) << Name(c.a) << " " << Name(c.b);
    EXPECT_EQ(Promote(c.b, c.a), c.expected) << Name(c.b) << " " << Name(c.a);
  }
}

TEST(BuilderTypes, Broadcasting) {
  EXPECT_EQ(BroadcastDims(Ints{2, 1, 4}, Ints{3, 1}), (Ints{2, 3, 4}));
  EXPECT_EQ(BroadcastDims(Ints{}, Ints{0, 2}), (Ints{0, 2}));
  EXPECT_EQ(BroadcastDims(Ints{1}, Ints{0}), (Ints{0}));
  EXPECT_THROW(BroadcastDims(Ints{2}, Ints{3}), BuildError);
  EXPECT_EQ(ContiguousStrides(Ints{2, 3, 4}), (Ints{12, 4, 1}));
  EXPECT_EQ(ToString(Type{DType::kC64, {2, 0}}), "tensor<2x0xcomplex<f32>>");
}

std::string ErrorOf(const std::function<void(Builder&)>& body) {
  Builder b;
  try {
    body(b);
  } catch (const BuildError& e) {
    return e.what();
  }
  return "no error";
}

TEST(BuilderErrors, NameTheOpWhatWasExpectedAndFound) {
  EXPECT_EQ(ErrorOf([](Builder& b) { F32(b, {2}) + F32(b, {3}); }),
            "stablehlo.add: expected shapes that broadcast, found tensor<2xf32> and tensor<3xf32>");
  EXPECT_EQ(ErrorOf([](Builder& b) { b.Exp(b.ConstInt(1)); }),
            "stablehlo.exponential: expected a float or complex operand, found tensor<i64>");
  EXPECT_EQ(ErrorOf([](Builder& b) {
              b.Reshape(F32(b, {2, 3}), Ints{4});
            }),
            "Reshape: expected a shape of 6 elements (tensor<2x3xf32>), found [4]");
  EXPECT_EQ(ErrorOf([](Builder& b) { b.Sum(F32(b, {2}), 1); }),
            "stablehlo.add: expected a dimension of a value of rank 1, found 1");
  EXPECT_EQ(ErrorOf([](Builder& b) { b.Exp(Value()); }), "hlo: expected a value, found an empty one");
}

TEST(BuilderRegions, RefuseValuesThatXlaWould) {
  EXPECT_EQ(ErrorOf([](Builder& b) {
              Value x = F32(b, {4}), y = F32(b, {}), zero = b.Const(0.0, DType::kF32);
              b.Reduce(std::span(&x, 1), std::span(&zero, 1), {},
                       [&](Builder&, std::span<const Value> v) { return Results{v[0] + v[1] * y}; });
            }),
            "stablehlo.multiply: expected values made in the region of Reduce, found one from outside (XLA takes those "
            "in While and If only)");
  EXPECT_EQ(ErrorOf([](Builder& b) {
              Value p = b.Parameter({DType::kBool, {}}), leaked;
              b.If(
                  p, [&] { return Results{leaked = b.Exp(b.Const(1.0, DType::kF32))}; },
                  [&] { return Results{b.Const(2.0, DType::kF32)}; });
              b.Neg(leaked);
            }),
            "stablehlo.negate: expected a value of an open region, found one of a region that has ended");
}

TEST(BuilderRegions, AThrowClosesTheRegion) {
  Builder b;
  Value p = b.Parameter({DType::kBool, {}});
  EXPECT_THROW(b.If(
                   p, [&] { return Results{b.Exp(b.ConstInt(1))}; }, [] { return Results{}; }),
               BuildError);
  Value x = b.Neg(b.Const(1.0, DType::kF32));
  EXPECT_NE(b.Finish(std::span(&x, 1)).find("negate"), std::string::npos);
}

TEST(BuilderConstants, SameScalarIsOneInstruction) {
  Builder b;
  EXPECT_EQ(b.Const(1.0, DType::kF32).id(), b.ConstInt(1, DType::kF32).id());
  EXPECT_NE(b.Const(0.0, DType::kF32).id(), b.Const(-0.0, DType::kF32).id());
  EXPECT_NE(b.Const(1.0, DType::kF32).id(), b.Const(1.0, DType::kF64).id());
}

TEST(BuilderFingerprint, SpreadsAndRepeats) {
  EXPECT_EQ(FingerprintOf("abc"), FingerprintOf("abc"));
  EXPECT_EQ(FingerprintOf("abc").Hex().size(), 32u);
  std::string zeros;
  std::vector<std::string> seen;
  for (int n = 0; n < 300; ++n) {
    seen.push_back(FingerprintOf(zeros).Hex());
    zeros += '\0';
  }
  // One flipped bit changes about half of the 128, in any place of the input.
  std::string base(100, 'x');
  Fingerprint f = FingerprintOf(base);
  for (size_t i = 0; i < base.size() * 8; ++i) {
    std::string other = base;
    other[i / 8] ^= static_cast<char>(1 << i % 8);
    Fingerprint g = FingerprintOf(other);
    int flipped = __builtin_popcountll(f.hi ^ g.hi) + __builtin_popcountll(f.lo ^ g.lo);
    EXPECT_GT(flipped, 30) << i;
    EXPECT_LT(flipped, 98) << i;
    seen.push_back(g.Hex());
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
}

}  // namespace
}  // namespace tpu::hlo
