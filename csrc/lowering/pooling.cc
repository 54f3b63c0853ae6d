// Average and maximum pooling over windows of fixed size, in two and three dimensions (one dimension arrives as two).
#include "lowering/pooling.h"

#include <algorithm>
#include <limits>

namespace tpu::lowering {

DType PositionType(std::span<const int64_t> spatial_dims) {
  return hlo::NumElements(spatial_dims) < std::numeric_limits<int32_t>::max() ? DType::kI32 : DType::kI64;
}

Value PlanePositions(Builder& b, std::span<const int64_t> spatial_dims) {
  return b.Reshape(b.Iota(hlo::NumElements(spatial_dims), PositionType(spatial_dims)), spatial_dims);
}

Value PastEveryPosition(Builder& b, DType dtype) {
  return b.ConstInt(dtype == DType::kI32 ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int64_t>::max(),
                    dtype);
}

std::vector<Value> LargerWithPosition(Builder& b, std::span<const Value> pairs) {
  Value x = pairs[0], at_x = pairs[1], y = pairs[2], at_y = pairs[3];
  Value take_y = b.Or(b.Gt(y, x), b.And(b.Eq(y, x), b.Lt(at_y, at_x)));
  if (IsFloat(x.dtype())) {
    Value nan_x = b.Ne(x, x), nan_y = b.Ne(y, y);
    take_y = b.Or(take_y, b.And(nan_y, b.Or(b.Not(nan_x), b.Gt(at_y, at_x))));
  }
  return {b.Select(take_y, y, x), b.Select(take_y, at_y, at_x)};
}

Value WriteToPlane(Builder& b, Value values, Value positions, std::span<const int64_t> spatial_dims, bool add) {
  int64_t plane = hlo::NumElements(spatial_dims);
  Ints dims(values.dims().begin(), values.dims().end() - static_cast<int64_t>(spatial_dims.size()));
  int64_t planes = hlo::NumElements(dims);
  int64_t per_plane = planes ? values.numel() / planes : 0;
  dims.insert(dims.end(), spatial_dims.begin(), spatial_dims.end());
  if (values.numel() == 0 || plane == 0) return b.Full(dims, 0.0, values.dtype());
  // Positions count through all the planes, so that one index dimension is enough.
  Value at = b.Reshape(b.Cast(positions, DType::kI64), Ints{planes, per_plane}) +
             b.Mul(b.Iota(Ints{planes, 1}, 0), b.ConstInt(plane));
  hlo::ScatterDims scatter;
  scatter.inserted_window_dims = {0};
  scatter.scatter_dims_to_operand_dims = {0};
  scatter.index_vector_dim = 1;
  Value flat = b.Scatter(b.Full(Ints{planes * plane}, 0.0, values.dtype()), b.Reshape(at, Ints{planes * per_plane, 1}),
                         b.Flatten(values), scatter,
                         [add](Builder&, Value old, Value update) { return add ? old + update : update; });
  return b.Reshape(flat, dims);
}

Ints SpreadOver(const Ints& list, size_t spatial) { return list.size() == 1 ? Ints(spatial, list[0]) : list; }

namespace {

// A pooling window over the last dimensions of x; padding_high makes the output what ceil_mode asks for.
struct Pool {
  size_t spatial = 0;
  Ints in, out, kernel, stride, padding, dilation;
  Ints PaddingHigh() const {
    Ints high;
    for (size_t d = 0; d < spatial; ++d) {
      int64_t needed = (out[d] - 1) * stride[d] + dilation[d] * (kernel[d] - 1) + 1 - in[d] - padding[d];
      high.push_back(std::max(needed, padding[d]));
    }
    return high;
  }
};

Pool MakePool(const Ints& in_dims, const Ints& out_dims, size_t spatial, const Ints& kernel, const Ints& stride,
              const Ints& padding, const Ints& dilation) {
  Pool p;
  p.spatial = spatial;
  p.in.assign(in_dims.end() - static_cast<int64_t>(spatial), in_dims.end());
  p.out.assign(out_dims.end() - static_cast<int64_t>(spatial), out_dims.end());
  p.kernel = SpreadOver(kernel, spatial);
  p.stride = stride.empty() ? p.kernel : SpreadOver(stride, spatial);
  p.padding = SpreadOver(padding, spatial);
  p.dilation = SpreadOver(dilation, spatial);
  return p;
}

// The same list with `fill` for the leading dimensions.
Ints Lead(int64_t rank, const Ints& list, int64_t fill) {
  Ints all(rank - static_cast<int64_t>(list.size()), fill);
  all.insert(all.end(), list.begin(), list.end());
  return all;
}

hlo::WindowDims Window(int64_t rank, const Pool& p) {
  hlo::WindowDims w;
  w.sizes = Lead(rank, p.kernel, 1);
  w.strides = Lead(rank, p.stride, 1);
  w.base_dilations = Ints(rank, 1);
  w.window_dilations = Lead(rank, p.dilation, 1);
  w.padding_low = Lead(rank, p.padding, 0);
  w.padding_high = Lead(rank, p.PaddingHigh(), 0);
  return w;
}

Value SumWindows(Builder& b, Value x, const hlo::WindowDims& window) {
  return b.ReduceWindow(std::vector<Value>{x}, std::vector<Value>{b.ConstLike(0, x)}, window,
                        [](Builder&, std::span<const Value> v) { return std::vector<Value>{v[0] + v[1]}; })[0];
}

// What the sum over each window is divided by: [out...] or broadcasting to it.
Value Divisor(Builder& b, const Pool& p, bool count_include_pad, std::optional<int64_t> divisor_override, DType dtype) {
  if (divisor_override) return b.Const(static_cast<double>(*divisor_override), dtype);
  Value product;
  for (size_t d = 0; d < p.spatial; ++d) {
    std::vector<double> counts;
    for (int64_t o = 0; o < p.out[d]; ++o) {
      int64_t start = o * p.stride[d] - p.padding[d];
      int64_t end = std::min(start + p.kernel[d], p.in[d] + p.padding[d]);
      // Padding counts, but not what only ceil_mode adds.
      if (!count_include_pad) start = std::max<int64_t>(start, 0), end = std::min(end, p.in[d]);
      counts.push_back(static_cast<double>(end - start));
    }
    bool uniform = std::all_of(counts.begin(), counts.end(), [&](double c) { return c == counts[0]; });
    Value factor;
    if (uniform) {
      factor = b.Const(counts.empty() ? 1.0 : counts[0], dtype);
    } else {
      Ints dims(p.spatial, 1);
      dims[d] = p.out[d];
      factor = b.Reshape(b.ConstDoubles(counts, dtype), dims);
    }
    product = product.valid() ? product * factor : factor;
  }
  return product;
}

Value AveragePool(Builder& b, Value x, size_t spatial, const Ints& kernel, const Ints& stride, const Ints& padding,
                  bool count_include_pad, std::optional<int64_t> divisor_override) {
  Pool p = MakePool(x.dims(), b.Expected().dims, spatial, kernel, stride, padding, {1});
  return SumWindows(b, x, Window(x.rank(), p)) / Divisor(b, p, count_include_pad, divisor_override, x.dtype());
}

// Every input element receives grad / divisor from each window that covers it: the sum over windows of the gradient
// spread out by the stride.
Value AveragePoolBackward(Builder& b, Value grad, Value x, size_t spatial, const Ints& kernel, const Ints& stride,
                          const Ints& padding, bool count_include_pad, std::optional<int64_t> divisor_override) {
  Pool p = MakePool(x.dims(), grad.dims(), spatial, kernel, stride, padding, {1});
  if (grad.numel() == 0) return b.ZerosLike(x);
  Value g = grad / Divisor(b, p, count_include_pad, divisor_override, grad.dtype());
  Ints low, high, interior;
  for (size_t d = 0; d < spatial; ++d) {
    low.push_back(p.kernel[d] - 1 - p.padding[d]);
    interior.push_back(p.stride[d] - 1);
    high.push_back(p.in[d] + p.kernel[d] - 2 - (p.out[d] - 1) * p.stride[d] - low.back());
  }
  int64_t rank = x.rank();
  g = b.Pad(g, b.ConstLike(0, g), Lead(rank, low, 0), Lead(rank, high, 0), Lead(rank, interior, 0));
  hlo::WindowDims w;
  w.sizes = Lead(rank, p.kernel, 1);
  w.strides = w.base_dilations = w.window_dilations = Ints(rank, 1);
  w.padding_low = w.padding_high = Ints(rank, 0);
  return SumWindows(b, g, w);
}

template <size_t spatial>
Value AvgPool(Builder& b, Value x, Ints kernel, Ints stride, Ints padding, bool /*ceil_mode*/, bool count_include_pad,
              std::optional<int64_t> divisor_override) {
  return AveragePool(b, x, spatial, kernel, stride, padding, count_include_pad, divisor_override);
}
LOWER("avg_pool2d", AvgPool<2>);
LOWER("avg_pool3d", AvgPool<3>);

template <size_t spatial>
Value AvgPoolBackward(Builder& b, Value grad, Value x, Ints kernel, Ints stride, Ints padding, bool /*ceil_mode*/,
                      bool count_include_pad, std::optional<int64_t> divisor_override) {
  return AveragePoolBackward(b, grad, x, spatial, kernel, stride, padding, count_include_pad, divisor_override);
}
LOWER("avg_pool2d_backward", AvgPoolBackward<2>);
LOWER("avg_pool3d_backward", AvgPoolBackward<3>);

// {largest element of each window, its position in the plane}
template <size_t spatial>
std::vector<Value> MaxPool(Builder& b, Value x, Ints kernel, Ints stride, Ints padding, Ints dilation,
                           bool /*ceil_mode*/) {
  Pool p = MakePool(x.dims(), b.Expected().dims, spatial, kernel, stride, padding, dilation);
  Value positions = b.BroadcastTo(PlanePositions(b, p.in), x.dims());
  return b.ReduceWindow(std::vector<Value>{x, positions},
                        std::vector<Value>{Lowest(b, x.dtype()), PastEveryPosition(b, positions.dtype())},
                        Window(x.rank(), p), LargerWithPosition);
}
LOWER("max_pool2d_with_indices", MaxPool<2>);
LOWER("max_pool3d_with_indices", MaxPool<3>);

// The gradient goes to each window's position. For every offset k within the kernel, the windows whose position is
// o * stride - padding + k * dilation form a strided slice of the input, so a small kernel needs no scatter.
template <size_t spatial>
Value MaxPoolBackward(Builder& b, Value grad, Value x, Ints kernel, Ints stride, Ints padding, Ints dilation,
                      bool /*ceil_mode*/, Value positions) {
  constexpr int64_t kMostOffsets = 64;
  Pool p = MakePool(x.dims(), grad.dims(), spatial, kernel, stride, padding, dilation);
  if (grad.numel() == 0) return b.ZerosLike(x);
  if (hlo::NumElements(p.kernel) > kMostOffsets) return WriteToPlane(b, grad, positions, p.in, true);
  DType dtype = PositionType(p.in);
  positions = b.Cast(positions, dtype);
  Ints plane_strides = hlo::ContiguousStrides(p.in);
  // The position of offset zero in each window.
  Value origin = b.ConstInt(0, dtype);
  Ints interior;
  for (size_t d = 0; d < spatial; ++d) {
    Value o = b.Iota(p.out, static_cast<int64_t>(d), dtype);
    origin = origin + (o * static_cast<double>(p.stride[d]) - static_cast<double>(p.padding[d])) *
                          static_cast<double>(plane_strides[d]);
    interior.push_back(p.stride[d] - 1);
  }
  int64_t rank = x.rank();
  Value total;
  for (int64_t k = 0; k < hlo::NumElements(p.kernel); ++k) {
    int64_t rest = k, shift = 0;
    Ints low(spatial), high(spatial);
    for (size_t d = spatial; d-- > 0;) {
      int64_t offset = (rest % p.kernel[d]) * p.dilation[d];
      rest /= p.kernel[d];
      shift += offset * plane_strides[d];
      low[d] = offset - p.padding[d];
      high[d] = p.in[d] - low[d] - ((p.out[d] - 1) * p.stride[d] + 1);
    }
    Value here = b.Select(b.Eq(positions, origin + static_cast<double>(shift)), grad, 0.0);
    here = b.Pad(here, b.ConstLike(0, here), Lead(rank, low, 0), Lead(rank, high, 0), Lead(rank, interior, 0));
    total = total.valid() ? total + here : here;
  }
  return total;
}
LOWER("max_pool2d_with_indices_backward", MaxPoolBackward<2>);
LOWER("max_pool3d_with_indices_backward", MaxPoolBackward<3>);

}  // namespace
}  // namespace tpu::lowering
