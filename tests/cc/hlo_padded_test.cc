// Programs for a range of sizes on the CPU plugin: what they compute is what the exact program computes, whatever the padding
// holds.
#include "hlo/padded_program.h"

#include <cmath>
#include <limits>
#include <random>

#include "hlo_builder_runner.h"

namespace tpu::hlo {
namespace {

using enum DType;
using Values = std::vector<Value>;
using Body = std::function<Values(Builder&, std::span<const Value>, int64_t n)>;
using Shape = std::function<Ints(int64_t n)>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Built {
  Samples points;
  std::vector<std::unique_ptr<Builder>> builders;
  std::vector<Values> results;
};

Built Sample(const std::vector<Shape>& shapes, const Body& body, int64_t low, int64_t high) {
  Built built{Samples(Ints{low}, Ints{high}, 0), {}, {}};
  for (const auto& point : built.points.points()) {
    auto b = std::make_unique<Builder>();
    b->UseComparableForms();
    Values parameters;
    for (const Shape& shape : shapes) parameters.push_back(b->Parameter({kF32, shape(point[0])}));
    built.results.push_back(body(*b, parameters, point[0]));
    built.builders.push_back(std::move(b));
  }
  return built;
}

// Row-major elements of the box inside an array of `dims`, in order: f(index in the array).
void ForBox(const Ints& box, const Ints& dims, const std::function<void(int64_t)>& f) {
  if (NumElements(box) == 0) return;
  const Ints strides = ContiguousStrides(dims);
  Ints index(box.size(), 0);
  while (true) {
    int64_t at = 0;
    for (size_t d = 0; d < box.size(); ++d) at += index[d] * strides[d];
    f(at);
    size_t d = box.size();
    while (d > 0 && ++index[d - 1] == box[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

Ints At(const std::vector<Polynomial>& sizes, int64_t n) {
  Ints out;
  for (const Polynomial& size : sizes) out.push_back(size.At(Ints{n}));
  return out;
}

void Check(const std::vector<Shape>& shapes, const Body& body, int64_t low = 2, int64_t high = 8) {
  if (!CpuClient()) GTEST_SKIP() << "TORCHTPU_CPU_PLUGIN is not set";
  const Built built = Sample(shapes, body, low, high);
  const PaddedProgram program(SymbolicProgram::Fit(built.points, built.builders, built.results), Ints{high});
  std::mt19937 random(1);
  for (int64_t n = low; n <= high; ++n) {
    Runner exact, padded;
    Values inputs, padded_inputs;
    for (size_t p = 0; p < shapes.size(); ++p) {
      std::vector<double> values(NumElements(shapes[p](n)));
      for (double& v : values) v = std::uniform_int_distribution<int>(-8, 8)(random) / 4.0;
      inputs.push_back(exact.Input(values, shapes[p](n)));
      const PaddedType& type = program.parameters()[p];
      std::vector<double> whole(NumElements(type.type.dims), kNan);
      size_t next = 0;
      const Ints box = type.is_static ? type.type.dims : At(type.box, n);
      ForBox(box, type.type.dims, [&](int64_t at) { whole[at] = values[next++]; });
      ASSERT_EQ(next, values.size());
      padded_inputs.push_back(padded.Input(std::move(whole), type.type.dims));
    }
    const auto expected = exact.Run(body(exact.b, inputs, n));
    Value symbol = padded.Input({static_cast<double>(n)}, {}, kI64);
    const auto emission = program.Emit(padded.b, padded_inputs, std::span(&symbol, 1));
    const auto found = padded.Run(emission.values);
    for (size_t r = 0; r < expected.size(); ++r) {
      const PaddedType& type = emission.types[r];
      std::vector<double> cut;
      ForBox(type.is_static ? type.type.dims : At(type.box, n), type.type.dims,
             [&](int64_t at) { cut.push_back(found[r][at]); });
      ASSERT_EQ(cut.size(), expected[r].size()) << "result " << r << " of length " << n;
      for (size_t i = 0; i < cut.size(); ++i) {
        EXPECT_NEAR(cut[i], expected[r][i], 1e-4 * std::max(1.0, std::abs(expected[r][i])))
            << "result " << r << "[" << i << "] of length " << n;
      }
    }
  }
}

const Shape kMatrix = [](int64_t n) { return Ints{2, n, 3}; };

TEST(Padded, ElementwiseAndBroadcast) {
  Check({kMatrix,
         [](int64_t n) {
           return Ints{n, 1};
         }},
        [](Builder& b, std::span<const Value> x, int64_t n) {
          return Values{b.Exp(x[0]) + x[1], x[0] * double(n)};
        });
}

TEST(Padded, Reductions) {
  Check({kMatrix}, [](Builder& b, std::span<const Value> x, int64_t n) {
    return Values{b.Sum(x[0], 1) / double(n), b.Max(x[0], Ints{1, 2}), b.Min(x[0], Ints{0}, false),
                  b.ArgMax(x[0], 1).second, b.Sum(x[0], Ints{}) * (1.0 / double(n))};
  });
}

TEST(Padded, ProductsOverAndBesideTheSize) {
  Check({kMatrix, kMatrix}, [](Builder& b, std::span<const Value> x, int64_t) {
    return Values{b.DotGeneral(x[0], x[1], Ints{0}, Ints{0}, Ints{1}, Ints{1}),
                  b.DotGeneral(x[0], x[1], Ints{0}, Ints{0}, Ints{2}, Ints{2}),
                  b.DotGeneral(x[0], x[1], Ints{1}, Ints{1}, Ints{0, 2}, Ints{0, 2})};
  });
}

TEST(Padded, MergedDimensions) {
  Check({kMatrix}, [](Builder& b, std::span<const Value> x, int64_t n) {
    Value flat = b.Reshape(x[0], Ints{2 * n, 3}), all = b.Flatten(x[0]);
    return Values{flat,
                  b.Sum(flat, 0),
                  all,
                  b.SliceDim(all, 0, 1, 6 * n - 1),
                  b.Reshape(all, Ints{3, n, 2}),
                  all + b.Iota(6 * n, kF32),
                  b.Reshape(b.Iota(6 * n, kF32), Ints{2, n, 3}),
                  b.Reshape(b.Transpose(x[0], Ints{1, 0, 2}), Ints{2 * n, 3}) * flat};
  });
}

TEST(Padded, SlicesFromBothEnds) {
  Check({kMatrix}, [](Builder& b, std::span<const Value> x, int64_t n) {
    return Values{b.SliceDim(x[0], 1, n - 1, n), b.SliceDim(x[0], 1, 1, n), b.SliceDim(x[0], 1, 0, n - 2),
                  b.SliceDim(x[0], 1, n - 2, n), b.Reverse(x[0], Ints{1}),  b.SliceDim(x[0], 2, 0, 3, 2)};
  });
}

TEST(Padded, JoinsAndPads) {
  Check({kMatrix,
         [](int64_t) {
           return Ints{2, 1, 3};
         }},
        [](Builder& b, std::span<const Value> x, int64_t n) {
          Value fill = b.Const(7, kF32);
          return Values{b.Concat(std::array{x[0], x[1]}, 1),
                        b.Concat(std::array{x[1], x[0], x[0]}, 1),
                        b.Concat(std::array{x[0], x[0]}, 0),
                        b.Pad(x[0], fill, Ints{0, 2, 0}, Ints{1, 1, 0}),
                        b.Pad(x[0], fill, Ints{0, n, 0}, Ints{0, 0, 0}),
                        b.Pad(x[0], fill, Ints{0, -1, 0}, Ints{0, -1, 1}),
                        b.Pad(x[0], fill, Ints{0, 0, 0}, Ints{0, 0, 0}, Ints{0, 1, 0})};
        });
}

TEST(Padded, RunTimePlaces) {
  Check({kMatrix}, [](Builder& b, std::span<const Value> x, int64_t n) {
    Value zero = b.ConstInt(0), far = b.ConstInt(100), one = b.ConstInt(1);
    Value wide = b.Full(Ints{2, 20, 3}, 1.0, kF32), last = b.ConstInt(n - 1);
    return Values{b.DynamicSlice(x[0], std::array{zero, far, zero}, Ints{2, 1, 3}),
                  b.DynamicSlice(wide, std::array{zero, one, zero}, Ints{2, n, 3}),
                  b.DynamicUpdateSlice(wide, x[0], std::array{zero, one, zero}),
                  b.DynamicUpdateSlice(x[0], b.Full(Ints{2, 1, 3}, 5.0, kF32), std::array{zero, last, zero})};
  });
}

TEST(Padded, SortsAndScans) {
  Check({kMatrix}, [](Builder& b, std::span<const Value> x, int64_t) {
    Value arrays[] = {x[0], b.Iota(x[0].dims(), 1, kF32)};
    Values sorted = b.Sort(arrays, 1, true, [](Builder& b, std::span<const Value> v) { return b.Gt(v[0], v[2]); });
    const auto add = [&](std::span<const Value> s, std::span<const Value> t) { return Values{s[0] + t[0]}; };
    sorted.push_back(b.AssociativeScan(std::span(x.data(), 1), 1, add)[0]);
    sorted.push_back(b.AssociativeScan(std::span(x.data(), 1), 1, add, true)[0]);
    return sorted;
  });
}

TEST(Padded, GatherAndScatter) {
  Check({kMatrix, [](int64_t n) { return Ints{n}; }}, [](Builder& b, std::span<const Value> x, int64_t n) {
    Value index = b.Cast(b.Abs(x[1]), kI64);  // 0, 1 or 2
    index = b.Min(index, b.ConstInt(n - 1));
    Value rows = b.Transpose(x[0], Ints{1, 0, 2});
    ScatterDims d;
    d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0};
    d.index_vector_dim = 1;
    d.update_window_dims = {1, 2};
    d.indices_are_sorted = false;
    const auto add = [](Builder& b, Value s, Value t) { return b.Add(s, t); };
    return Values{b.TakeRows(rows, index), b.TakeRows(b.Full(Ints{4, 2}, 2.0, kF32), index),
                  b.Scatter(b.ZerosLike(rows), index, rows, d, add),
                  b.Scatter(b.Full(Ints{5, 2, 3}, 1.0, kF32), index, rows, d, add)};
  });
}

TEST(Padded, Convolution) {
  Check(
      {[](int64_t n) {
         return Ints{2, 3, n};
       },
       [](int64_t) {
         return Ints{4, 3, 3};
       }},
      [](Builder& b, std::span<const Value> x, int64_t) {
        ConvDims d;
        d.padding_low = d.padding_high = {1};
        return Values{b.Convolution(x[0], x[1], d)};
      },
      3, 8);
}

TEST(Padded, RefusesWhatIsNoPolynomial) {
  const Built built = Sample(
      {kMatrix}, [](Builder& b, std::span<const Value> x, int64_t n) { return Values{b.SliceDim(x[0], 1, 0, n, 2)}; },
      9, 16);
  EXPECT_THROW(SymbolicProgram::Fit(built.points, built.builders, built.results), BuildError);
  const Built clipped = Sample(
      {kMatrix},
      [](Builder& b, std::span<const Value> x, int64_t n) {
        return Values{b.SliceDim(x[0], 1, 0, std::min<int64_t>(n, 12))};
      },
      9, 16);
  EXPECT_THROW(SymbolicProgram::Fit(clipped.points, clipped.builders, clipped.results), BuildError);
}

TEST(Polynomial, DividesAndFits) {
  const Polynomial s = Polynomial::Term({1}, 1), t = Polynomial::Term({0, 1}, 1);
  const Polynomial product = (s + Polynomial(1)) * (t * s + Polynomial(3));
  EXPECT_EQ(product.Over(s + Polynomial(1)), t * s + Polynomial(3));
  EXPECT_EQ(product.Over(s), std::nullopt);
  const Samples points(Ints{1025, 2}, Ints{2048, 8}, 0);
  std::vector<int64_t> values;
  for (const auto& point : points.points()) values.push_back(product.At(point));
  EXPECT_EQ(points.Fit(values), product);
}

}  // namespace
}  // namespace tpu::hlo
