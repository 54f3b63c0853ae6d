// Sampling images at given points, its gradients, and grids of affine maps. Points are in [-1, 1], last axis first.
// Positions and gradients follow ATen/native/GridSampler.h.
#include <limits>

#include "lowering/lowering.h"

namespace tpu::lowering {
namespace {

enum Mode : int64_t { kBilinear, kNearest, kBicubic };
enum PaddingMode : int64_t { kZeros, kBorder, kReflection };

// A source position and its derivative in the grid's number.
struct Coordinate {
  Value at, slope;
};

// One source place along one axis: its index, whether it lies in the image, its weight and the weight's derivative.
struct Tap {
  Value index, inside, weight, derivative;
};

Coordinate Unnormalize(Builder& b, Value x, int64_t size, bool align_corners) {
  double n = static_cast<double>(size);
  double slope = align_corners ? (n - 1) / 2 : n / 2;
  Value at = align_corners ? (x + 1.0) / 2.0 * (n - 1) : ((x + 1.0) * n - 1.0) / 2.0;
  return {at, b.ConstLike(slope, x)};
}

// Into [0, size - 1]; constant outside.
Coordinate Clip(Builder& b, Coordinate c, int64_t size) {
  double last = static_cast<double>(size - 1);
  Value inside = b.And(b.Gt(c.at, 0.0), b.Lt(c.at, last));
  // Comparisons with NaN are false, so it becomes 0, as on CUDA.
  Value at = b.Select(b.Gt(c.at, 0.0), b.Select(b.Lt(c.at, last), c.at, last), 0.0);
  return {at, b.Select(inside, c.slope, b.ZerosLike(c.slope))};
}

// Mirrored at twice_low / 2 and twice_high / 2 until it lies between them.
Coordinate Reflect(Builder& b, Coordinate c, int64_t twice_low, int64_t twice_high) {
  if (twice_low == twice_high) return {b.ZerosLike(c.at), b.ZerosLike(c.at)};
  double low = static_cast<double>(twice_low) / 2, span = static_cast<double>(twice_high - twice_low) / 2;
  Value x = c.at - low;
  Value below = b.Lt(x, 0.0);
  x = b.Abs(x);
  Value extra = b.Rem(x, b.ConstLike(span, x)), flips = b.Floor(x / span);
  Value odd = b.Ne(b.Rem(flips, b.ConstLike(2.0, flips)), 0.0);
  Value at = b.Select(odd, span - extra, extra) + low;
  return {at, b.Select(b.Xor(below, odd), b.Neg(c.slope), c.slope)};
}

Coordinate Padded(Builder& b, Coordinate c, int64_t size, int64_t padding_mode, bool align_corners) {
  if (padding_mode == kReflection) {
    c = align_corners ? Reflect(b, c, 0, 2 * (size - 1)) : Reflect(b, c, -1, 2 * size - 1);
  }
  return padding_mode == kZeros ? c : Clip(b, c, size);
}

// The place at an integral float position.
Tap PlaceAt(Builder& b, Value at, int64_t size, Value weight, Value derivative) {
  Value inside = b.And(b.Ge(at, 0.0), b.Le(at, static_cast<double>(size - 1)));
  return {b.Cast(b.Select(inside, at, 0.0), DType::kI32), inside, weight, derivative};
}

// Keys' coefficients with a = -0.75 for the distances t + 1, t, 1 - t, 2 - t, and their derivatives in t.
std::vector<std::pair<Value, Value>> CubicWeights(Value t) {
  constexpr double a = -0.75;
  auto near = [](Value x) { return ((a + 2) * x - (a + 3)) * x * x + 1.0; };
  auto far = [](Value x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  auto near_slope = [](Value x) { return (3 * (a + 2) * x - 2 * (a + 3)) * x; };
  auto far_slope = [](Value x) { return (3 * a * x - 10 * a) * x + 8 * a; };
  Value s = 1.0 - t;
  return {{far(t + 1.0), far_slope(t + 1.0)},
          {near(t), near_slope(t)},
          {near(s), -near_slope(s)},
          {far(s + 1.0), -far_slope(s + 1.0)}};
}

struct Axis {
  std::vector<Tap> taps;
  Value slope;
};

Axis MakeAxis(Builder& b, Value grid, int64_t size, int64_t mode, int64_t padding_mode, bool align_corners) {
  Coordinate c = Unnormalize(b, grid, size, align_corners);
  if (mode != kBicubic) c = Padded(b, c, size, padding_mode, align_corners);
  // What no integer can hold, NaN too, lies outside every image, as on CUDA; CPU spreads NaN.
  constexpr int32_t kFar = std::numeric_limits<int32_t>::max() / 2;
  Value usable = b.Lt(b.Abs(c.at), static_cast<double>(kFar));
  c.at = b.Select(usable, c.at, -100.0);
  Axis axis;
  axis.slope = c.slope;
  Value one = b.ConstLike(1.0, c.at), zero = b.ConstLike(0.0, c.at);
  if (mode == kNearest) {
    axis.taps = {PlaceAt(b, b.RoundEven(c.at), size, one, zero)};
    return axis;
  }
  Value low = b.Floor(c.at), t = c.at - low;
  if (mode == kBilinear) {
    axis.taps = {PlaceAt(b, low, size, 1.0 - t, b.Neg(one)), PlaceAt(b, low + 1.0, size, t, one)};
    return axis;
  }
  int k = -1;
  for (auto [weight, derivative] : CubicWeights(t)) {
    Coordinate place = Padded(b, {low + static_cast<double>(k++), c.slope}, size, padding_mode, align_corners);
    axis.taps.push_back(PlaceAt(b, b.Floor(place.at), size, weight, derivative));
  }
  return axis;
}

// The product of one tap of each axis: rows of the images laid out as [N * places, C].
struct Corner {
  Value row, inside;             // [N, points]
  std::vector<const Tap*> taps;  // one of each axis
};

struct Sampler {
  Ints spatial;  // of the input
  int64_t batch, channels, places, points;
  std::vector<Axis> axes;  // in the order of `spatial`
  std::vector<Corner> corners;
};

Sampler MakeSampler(Builder& b, Value x, Value grid, int64_t mode, int64_t padding_mode, bool align_corners) {
  Sampler s;
  s.spatial.assign(x.dims().begin() + 2, x.dims().end());
  s.batch = x.dim(0), s.channels = x.dim(1), s.places = hlo::NumElements(s.spatial);
  int64_t n = static_cast<int64_t>(s.spatial.size());
  s.points = hlo::NumElements(std::span(grid.dims()).subspan(1, n));
  Value numbers = b.Reshape(grid, Ints{s.batch, s.points, n});
  for (int64_t d = 0; d < n; ++d) {
    Value along = b.Squeeze(b.SliceDim(numbers, 2, n - 1 - d, n - d), 2);
    s.axes.push_back(MakeAxis(b, along, s.spatial[d], mode, padding_mode, align_corners));
  }
  size_t corners = 1;
  for (const Axis& axis : s.axes) corners *= axis.taps.size();
  Value image = b.Iota(Ints{s.batch, 1}, 0, DType::kI32);
  for (size_t i = 0; i < corners; ++i) {
    Corner corner;
    corner.row = image;
    size_t rest = i;
    for (int64_t d = 0; d < n; ++d) {
      const Tap& tap = s.axes[d].taps[rest % s.axes[d].taps.size()];
      rest /= s.axes[d].taps.size();
      corner.row = corner.row * static_cast<double>(s.spatial[d]) + tap.index;
      corner.inside = d == 0 ? tap.inside : b.And(corner.inside, tap.inside);
      corner.taps.push_back(&tap);
    }
    s.corners.push_back(corner);
  }
  return s;
}

// The corner's weight, with axis `skip`'s derivative in place of its weight; -1 skips none.
Value Weight(const Corner& corner, int64_t skip) {
  Value product;
  for (size_t d = 0; d < corner.taps.size(); ++d) {
    Value factor = static_cast<int64_t>(d) == skip ? corner.taps[d]->derivative : corner.taps[d]->weight;
    product = product.valid() ? product * factor : factor;
  }
  return product;
}

// [N, C, spatial...] <-> [N, places, C]
Value ToRows(Builder& b, Value x) {
  int64_t places = hlo::NumElements(std::span(x.dims()).subspan(2));
  return b.SwapDims(b.Reshape(x, Ints{x.dim(0), x.dim(1), places}), 1, 2);
}
Value FromRows(Builder& b, Value rows, std::span<const int64_t> spatial) {
  Ints dims = {rows.dim(0), rows.dim(2)};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return b.Reshape(b.SwapDims(rows, 1, 2), dims);
}

// Zero where the corner lies outside the image.
Value Masked(Builder& b, const Corner& corner, Value rows) {
  return b.Select(b.Unsqueeze(corner.inside, 2), rows, 0.0);
}

Value GridSample(Builder& b, Value x, Value grid, int64_t mode, int64_t padding_mode, bool align_corners) {
  Ints out(grid.dims().begin() + 1, grid.dims().end() - 1);
  Ints dims = {x.dim(0), x.dim(1)};
  dims.insert(dims.end(), out.begin(), out.end());
  if (hlo::NumElements(dims) == 0) return b.Full(dims, 0.0, x.dtype());
  Sampler s = MakeSampler(b, x, grid, mode, padding_mode, align_corners);
  Value table = b.Reshape(ToRows(b, x), Ints{s.batch * s.places, s.channels});
  Value sum;
  for (const Corner& corner : s.corners) {
    Value weight = b.BroadcastTo(Weight(corner, -1), corner.row.dims());
    Value term = Masked(b, corner, b.TakeRows(table, corner.row) * b.Unsqueeze(weight, 2));
    sum = sum.valid() ? sum + term : term;
  }
  return FromRows(b, sum, out);
}
LOWER("grid_sampler_2d", GridSample);
LOWER("grid_sampler_3d", GridSample);

Results GridSampleBackward(Builder& b, Value grad, Value x, Value grid, int64_t mode, int64_t padding_mode,
                           bool align_corners, Ints mask) {
  Results out(2);
  if (grad.numel() == 0 || x.numel() == 0) {
    if (mask[0]) out[0] = b.ZerosLike(x);
    if (mask[1]) out[1] = b.ZerosLike(grid);
    return out;
  }
  Sampler s = MakeSampler(b, x, grid, mode, padding_mode, align_corners);
  Value g = ToRows(b, grad);  // [N, points, C]
  if (mask[0]) {
    std::vector<Value> rows, updates;
    for (const Corner& corner : s.corners) {
      Value weight = b.Unsqueeze(b.BroadcastTo(Weight(corner, -1), corner.row.dims()), 2);
      rows.push_back(b.Flatten(corner.row));
      updates.push_back(b.Reshape(Masked(b, corner, g * weight), Ints{s.batch * s.points, s.channels}));
    }
    Value at = b.Concat(rows, 0);
    hlo::ScatterDims scatter;
    scatter.update_window_dims = {1};
    scatter.inserted_window_dims = scatter.scatter_dims_to_operand_dims = {0};
    scatter.index_vector_dim = 1;
    Value table =
        b.Scatter(b.Full(Ints{s.batch * s.places, s.channels}, 0.0, x.dtype()), b.Reshape(at, Ints{at.numel(), 1}),
                  b.Concat(updates, 0), scatter, [](Builder&, Value old, Value update) { return old + update; });
    out[0] = FromRows(b, b.Reshape(table, Ints{s.batch, s.places, s.channels}), s.spatial);
  }
  if (mask[1]) {
    size_t n = s.axes.size();
    std::vector<Value> by_axis(n);
    Value table = b.Reshape(ToRows(b, x), Ints{s.batch * s.places, s.channels});
    for (const Corner& corner : s.corners) {
      // What the loss gains per unit of this corner's weight.
      Value gain = b.Sum(Masked(b, corner, g * b.TakeRows(table, corner.row)), Ints{2}, false);
      for (size_t d = 0; d < n; ++d) {
        Value term = gain * Weight(corner, static_cast<int64_t>(d));
        by_axis[d] = by_axis[d].valid() ? by_axis[d] + term : term;
      }
    }
    std::vector<Value> columns;
    for (size_t d = n; d-- > 0;) columns.push_back(b.Unsqueeze(by_axis[d] * s.axes[d].slope, 2));
    out[1] = b.Reshape(b.Concat(columns, 2), grid.dims());
  }
  return out;
}
LOWER("grid_sampler_2d_backward", GridSampleBackward);
LOWER("grid_sampler_3d_backward", GridSampleBackward);

// Points of the output of an affine map: theta [N, d, d + 1] applied to (x, y, ..., 1); size is [N, C, spatial...].
Value AffineGrid(Builder& b, Value theta, Ints size, bool align_corners) {
  Ints spatial(size.begin() + 2, size.end());
  int64_t n = static_cast<int64_t>(spatial.size()), points = hlo::NumElements(spatial);
  std::vector<Value> columns;
  for (int64_t i = 0; i < n; ++i) {
    int64_t d = n - 1 - i, count = spatial[d];
    std::vector<double> numbers;
    for (int64_t k = 0; k < count; ++k) {
      double at = static_cast<double>(2 * k), last = static_cast<double>(count - 1);
      numbers.push_back(count <= 1 ? 0.0 : align_corners ? at / last - 1 : (at + 1) / static_cast<double>(count) - 1);
    }
    Value line = b.BroadcastInDim(b.ConstDoubles(numbers, theta.dtype()), spatial, Ints{d});
    columns.push_back(b.Reshape(line, Ints{points, 1}));
  }
  columns.push_back(b.Full(Ints{points, 1}, 1.0, theta.dtype()));
  Value base = b.Concat(columns, 1);
  // [N, d, points] -> [N, spatial..., d]
  Value grid = b.SwapDims(b.DotGeneral(theta, base, {}, {}, Ints{2}, Ints{1}), 1, 2);
  Ints dims = {size[0]};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  dims.push_back(n);
  return b.Reshape(grid, dims);
}
LOWER("affine_grid_generator", AffineGrid);

}  // namespace
}  // namespace tpu::lowering
