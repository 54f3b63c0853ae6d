// Rearrangements of images: sliding patches to columns and back, pixels to channels and back.
#include "lowering/lowering.h"

namespace tpu::lowering {
namespace {

// Places a patch starts at along one dimension.
struct Sweep {
  int64_t size, kernel, dilation, padding, stride;
  int64_t Count() const { return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1; }
};

Sweep MakeSweep(int64_t size, size_t i, const Ints& kernel, const Ints& dilation, const Ints& padding,
                const Ints& stride) {
  auto at = [i](const Ints& list) { return list.size() == 1 ? list[0] : list[i]; };
  return {size, at(kernel), at(dilation), at(padding), at(stride)};
}

Ints Only(int64_t rank, int64_t dim, int64_t amount) {
  Ints list(rank, 0);
  list[dim] = amount;
  return list;
}

// x of `size` along `dim` -> {kernel, count}: [k, o] = x[o * stride - padding + k * dilation].
Value Slide(Builder& b, Value x, int64_t dim, const Sweep& s) {
  Ints pad = Only(x.rank(), dim, s.padding);
  if (s.padding > 0) x = b.Pad(x, b.ConstLike(0, x), pad, pad);
  std::vector<Value> slices;
  int64_t count = s.Count();
  for (int64_t k = 0; k < s.kernel; ++k) {
    int64_t begin = k * s.dilation;
    slices.push_back(b.Unsqueeze(b.SliceDim(x, dim, begin, begin + (count - 1) * s.stride + 1, s.stride), dim));
  }
  return slices.size() == 1 ? slices[0] : b.Concat(slices, dim);
}

// The adjoint: {kernel, count} at {dim, dim + 1} -> `size`, overlaps added up.
Value SlideAdjoint(Builder& b, Value x, int64_t dim, const Sweep& s) {
  Value sum;
  int64_t count = s.Count();
  for (int64_t k = 0; k < s.kernel; ++k) {
    Value part = b.Squeeze(b.SliceDim(x, dim, k, k + 1), dim);
    int64_t low = k * s.dilation - s.padding;
    int64_t high = s.size - low - ((count - 1) * s.stride + 1);
    part = b.Pad(part, b.ConstLike(0, part), Only(part.rank(), dim, low), Only(part.rank(), dim, high),
                 Only(part.rank(), dim, s.stride - 1));
    sum = sum.valid() ? sum + part : part;
  }
  return sum;
}

// [N, C, H, W] -> [N, C * kernel, positions]
Value Im2Col(Builder& b, Value x, Ints kernel, Ints dilation, Ints padding, Ints stride) {
  bool batched = x.rank() == 4;
  if (!batched) x = b.Unsqueeze(x, 0);
  Sweep rows = MakeSweep(x.dim(2), 0, kernel, dilation, padding, stride);
  Sweep columns = MakeSweep(x.dim(3), 1, kernel, dilation, padding, stride);
  Value y = Slide(b, Slide(b, x, 2, rows), 4, columns);  // [N, C, kh, oh, kw, ow]
  y = b.Reshape(b.SwapDims(y, 3, 4),
                Ints{x.dim(0), x.dim(1) * rows.kernel * columns.kernel, rows.Count() * columns.Count()});
  return batched ? y : b.Squeeze(y, 0);
}
LOWER("im2col", Im2Col, kExact);

Value Col2Im(Builder& b, Value x, Ints output_size, Ints kernel, Ints dilation, Ints padding, Ints stride) {
  bool batched = x.rank() == 3;
  if (!batched) x = b.Unsqueeze(x, 0);
  Sweep rows = MakeSweep(output_size[0], 0, kernel, dilation, padding, stride);
  Sweep columns = MakeSweep(output_size.back(), 1, kernel, dilation, padding, stride);
  int64_t channels = x.dim(1) / (rows.kernel * columns.kernel);
  Value y = b.Reshape(x, Ints{x.dim(0), channels, rows.kernel, columns.kernel, rows.Count(), columns.Count()});
  y = SlideAdjoint(b, SlideAdjoint(b, b.SwapDims(y, 3, 4), 4, columns), 2, rows);
  return batched ? y : b.Squeeze(y, 0);
}
LOWER("col2im", Col2Im);

// {before the last three dimensions, C, H, W}
struct Image {
  Ints lead;
  int64_t channels, height, width;
};
Image ImageOf(Value x) { return {Ints(x.dims().begin(), x.dims().end() - 3), x.dim(-3), x.dim(-2), x.dim(-1)}; }

// [lead..., tail...] of x split so, its tail permuted by `order`, and the tail merged to `merged`.
Value Rearrange(Builder& b, Value x, const Ints& lead, const Ints& tail, const Ints& order, const Ints& merged) {
  Ints split = lead, permutation, dims = lead;
  split.insert(split.end(), tail.begin(), tail.end());
  int64_t n = static_cast<int64_t>(lead.size());
  for (int64_t d = 0; d < n; ++d) permutation.push_back(d);
  for (int64_t d : order) permutation.push_back(n + d);
  dims.insert(dims.end(), merged.begin(), merged.end());
  return b.Reshape(b.Transpose(b.Reshape(x, split), permutation), dims);
}

Value PixelShuffle(Builder& b, Value x, int64_t r) {
  auto [lead, c, h, w] = ImageOf(x);
  return Rearrange(b, x, lead, {c / (r * r), r, r, h, w}, {0, 3, 1, 4, 2}, {c / (r * r), h * r, w * r});
}
LOWER("pixel_shuffle", PixelShuffle, kExact);

Value PixelUnshuffle(Builder& b, Value x, int64_t r) {
  auto [lead, c, h, w] = ImageOf(x);
  return Rearrange(b, x, lead, {c, h / r, r, w / r, r}, {0, 2, 4, 1, 3}, {c * r * r, h / r, w / r});
}
LOWER("pixel_unshuffle", PixelUnshuffle, kExact);

Value ChannelShuffle(Builder& b, Value x, int64_t groups) {
  Ints split = x.dims();
  split[1] /= groups;
  split.insert(split.begin() + 1, groups);
  return b.Reshape(b.SwapDims(b.Reshape(x, split), 1, 2), x.dims());
}
LOWER("channel_shuffle", ChannelShuffle, kExact);

}  // namespace
}  // namespace tpu::lowering
