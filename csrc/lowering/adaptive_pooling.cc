// Pooling to a given output size, fractional pooling with random windows, and unpooling.
#include <algorithm>

#include "lowering/pooling.h"
#include "lowering/resampling.h"

namespace tpu::lowering {
namespace {

// Output o covers [floor(o * in / out), ceil((o + 1) * in / out)).
int64_t WindowBegin(int64_t o, int64_t in, int64_t out) { return o * in / out; }
int64_t WindowEnd(int64_t o, int64_t in, int64_t out) { return ((o + 1) * in + out - 1) / out; }

int64_t LongestWindow(int64_t in, int64_t out) {
  int64_t longest = 0;
  for (int64_t o = 0; o < out; ++o) longest = std::max(longest, WindowEnd(o, in, out) - WindowBegin(o, in, out));
  return longest;
}

// x with `dim` replaced by {out, longest window}; places past the end of a shorter window hold `filler`.
Value Windows(Builder& b, Value x, int64_t dim, int64_t out, Value filler) {
  int64_t in = x.dim(dim);
  Ints dims = x.dims();
  int64_t longest = LongestWindow(in, out);
  dims[dim] = out;
  dims.insert(dims.begin() + dim + 1, longest);
  if (out > 0 && in % out == 0) return b.Reshape(x, dims);
  Ints positions;
  std::vector<double> inside;
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t k = 0; k < longest; ++k) {
      int64_t position = WindowBegin(o, in, out) + k;
      inside.push_back(position < WindowEnd(o, in, out));
      positions.push_back(std::min(position, in - 1));
    }
  }
  Value taken = b.Reshape(TakeAt(b, x, dim, positions), dims);
  Ints broadcast(dims.size(), 1);
  broadcast[dim] = out, broadcast[dim + 1] = longest;
  return b.Select(b.Reshape(b.ConstDoubles(inside, DType::kBool), broadcast), taken, filler);
}

// Averages over the windows of one dimension after the other.
template <size_t spatial>
Value AdaptiveAvgPool(Builder& b, Value x, Ints output_size) {
  output_size = SpreadOver(output_size, spatial);
  for (size_t i = 0; i < spatial; ++i) {
    int64_t dim = x.rank() - static_cast<int64_t>(spatial - i), in = x.dim(dim), out = output_size[i];
    std::vector<double> length;
    for (int64_t o = 0; o < out; ++o) {
      length.push_back(static_cast<double>(WindowEnd(o, in, out) - WindowBegin(o, in, out)));
    }
    Ints broadcast(x.rank(), 1);
    broadcast[dim] = out;
    Value sum = b.Sum(Windows(b, x, dim, out, b.ConstLike(0, x)), Ints{dim + 1}, false);
    x = sum / b.Reshape(b.ConstDoubles(length, x.dtype()), broadcast);
  }
  return x;
}
LOWER("_adaptive_avg_pool2d", AdaptiveAvgPool<2>);
LOWER("_adaptive_avg_pool3d", AdaptiveAvgPool<3>);

template <size_t spatial>
Value AdaptiveAvgPoolBackward(Builder& b, Value grad, Value x) {
  if (grad.numel() == 0 || x.numel() == 0) return b.ZerosLike(x);
  for (size_t i = 0; i < spatial; ++i) {
    int64_t dim = x.rank() - static_cast<int64_t>(spatial - i), in = x.dim(dim), out = grad.dim(dim);
    if (in % out == 0) {
      const int64_t window = in / out;
      Ints repeated;
      for (int64_t p = 0; p < in; ++p) repeated.push_back(p / window);
      grad = TakeAt(b, grad / static_cast<double>(window), dim, repeated);
      continue;
    }
    Taps taps{in, out, {}, {}};
    for (int64_t k = 0; k < LongestWindow(in, out); ++k) {
      taps.index.emplace_back(out, 0);
      taps.weight.emplace_back(out, 0.0);
      for (int64_t o = 0; o < out; ++o) {
        int64_t begin = WindowBegin(o, in, out), end = WindowEnd(o, in, out);
        taps.index[k][o] = std::min(begin + k, in - 1);
        taps.weight[k][o] = begin + k < end ? 1.0 / static_cast<double>(end - begin) : 0.0;
      }
    }
    grad = ResampleAdjoint(b, grad, dim, taps);
  }
  return grad;
}
LOWER("_adaptive_avg_pool2d_backward", AdaptiveAvgPoolBackward<2>);
LOWER("_adaptive_avg_pool3d_backward", AdaptiveAvgPoolBackward<3>);

// {largest of each window, its position in the plane}
template <size_t spatial>
std::vector<Value> AdaptiveMaxPool(Builder& b, Value x, Ints output_size) {
  output_size = SpreadOver(output_size, spatial);
  Ints plane(x.dims().end() - static_cast<int64_t>(spatial), x.dims().end());
  Value positions = PlanePositions(b, plane), lowest = Lowest(b, x.dtype());
  Value past = PastEveryPosition(b, positions.dtype());
  // Dimensions i and before are split already, so dimension i of the plane lies i places further on.
  Ints window_dims;
  for (size_t i = 0; i < spatial; ++i) {
    int64_t dim = x.rank() - static_cast<int64_t>(spatial - i);
    x = Windows(b, x, dim, output_size[i], lowest);
    positions = Windows(b, positions, static_cast<int64_t>(2 * i), output_size[i], past);
    window_dims.push_back(dim + 1);
  }
  // A place past the end of its window along one dimension only must not win: both arrays mark it.
  positions = b.BroadcastTo(positions, x.dims());
  return b.Reduce(std::vector<Value>{x, positions}, std::vector<Value>{lowest, past}, window_dims, LargerWithPosition);
}
LOWER("adaptive_max_pool2d", AdaptiveMaxPool<2>);
LOWER("adaptive_max_pool3d", AdaptiveMaxPool<3>);

Ints PlaneOf(Value x, size_t spatial) { return Ints(x.dims().end() - static_cast<int64_t>(spatial), x.dims().end()); }

template <size_t spatial>
Value MaxPoolScatterBackward(Builder& b, Value grad, Value x, Value positions) {
  return WriteToPlane(b, grad, positions, PlaneOf(x, spatial), true);
}
LOWER("adaptive_max_pool2d_backward", MaxPoolScatterBackward<2>);
LOWER("adaptive_max_pool3d_backward", MaxPoolScatterBackward<3>);

// The first position of each window along one dimension: int((o + u) * alpha) - int(u * alpha), alpha =
// (in - kernel) / (out - 1); the last window ends the dimension. u is [...]; the result is [..., out].
Value FractionalBegins(Builder& b, Value u, int64_t in, int64_t out, int64_t kernel) {
  Ints dims = u.dims();
  dims.push_back(out);
  Value last = b.Full(dims, static_cast<double>(in - kernel), DType::kI32);
  if (out == 1) return last;
  Value alpha = b.Const(static_cast<double>(in - kernel), u.dtype()) / b.Const(static_cast<double>(out - 1), u.dtype());
  Value o = b.Iota(dims, u.rank(), u.dtype());
  u = b.Unsqueeze(u, -1);
  Value begin = b.Cast((o + u) * alpha, DType::kI32) - b.Cast(u * alpha, DType::kI32);
  return b.Select(b.Eq(o, static_cast<double>(out - 1)), last, begin);
}

// samples[n, c, i] places the windows; in 2-D i counts from the last dimension, in 3-D from the first.
template <size_t spatial>
std::vector<Value> FractionalMaxPool(Builder& b, Value x, Ints kernel, Ints output_size, Value samples) {
  kernel = SpreadOver(kernel, spatial), output_size = SpreadOver(output_size, spatial);
  Ints plane = PlaneOf(x, spatial), plane_strides = hlo::ContiguousStrides(plane);
  Ints lead(x.dims().begin(), x.dims().end() - static_cast<int64_t>(spatial));
  int64_t planes = hlo::NumElements(lead);
  samples = b.Reshape(samples, Ints{planes, static_cast<int64_t>(spatial)});
  // The flat position of each window's first element: [planes, out...].
  Value origin = b.ConstInt(0, DType::kI32);
  for (size_t d = 0; d < spatial; ++d) {
    int64_t column = static_cast<int64_t>(spatial == 2 ? 1 - d : d);
    Value u = b.Reshape(b.SliceDim(samples, 1, column, column + 1), Ints{planes});
    Ints dims(spatial + 1, 1);
    dims[0] = planes, dims[d + 1] = output_size[d];
    Value begin = b.Reshape(FractionalBegins(b, u, plane[d], output_size[d], kernel[d]), dims);
    origin = origin + begin * static_cast<double>(plane_strides[d]);
  }
  int64_t outputs = hlo::NumElements(output_size);
  origin = b.Reshape(origin, Ints{planes, outputs});
  Value flat = b.Reshape(x, Ints{planes, hlo::NumElements(plane)});
  std::vector<Value> best;
  for (int64_t k = 0; k < hlo::NumElements(kernel); ++k) {
    int64_t rest = k, shift = 0;
    for (size_t d = spatial; d-- > 0; rest /= kernel[d]) shift += rest % kernel[d] * plane_strides[d];
    Value position = origin + static_cast<double>(shift);
    Value value = b.TakeAlong(flat, 1, position);
    best = best.empty() ? std::vector<Value>{value, position}
                        : LargerWithPosition(b, std::vector<Value>{best[0], best[1], value, position});
  }
  Ints dims = lead;
  dims.insert(dims.end(), output_size.begin(), output_size.end());
  return {b.Reshape(best[0], dims), b.Reshape(best[1], dims)};
}
LOWER("fractional_max_pool2d", FractionalMaxPool<2>);
LOWER("fractional_max_pool3d", FractionalMaxPool<3>);

template <size_t spatial>
Value FractionalMaxPoolBackward(Builder& b, Value grad, Value x, Ints /*kernel*/, Ints /*output_size*/,
                                Value positions) {
  return WriteToPlane(b, grad, positions, PlaneOf(x, spatial), true);
}
LOWER("fractional_max_pool2d_backward", FractionalMaxPoolBackward<2>);
LOWER("fractional_max_pool3d_backward", FractionalMaxPoolBackward<3>);

Value MaxUnpool2d(Builder& b, Value x, Value positions, Ints output_size) {
  b.CheckIndex(positions, -1, 0, hlo::NumElements(output_size));
  return WriteToPlane(b, x, positions, output_size, false);
}
LOWER("max_unpool2d", MaxUnpool2d, kExact);
LOWER(
    "max_unpool3d",
    [](Builder& b, Value x, Value positions, Ints output_size, Ints /*stride*/, Ints /*padding*/) {
      return MaxUnpool2d(b, x, positions, output_size);
    },
    kExact);

}  // namespace
}  // namespace tpu::lowering
