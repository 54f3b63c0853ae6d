// Padding by reflection or by repetition of the border, and the gradients; one dimension at a time.
#include <algorithm>

#include "lowering/lowering.h"

namespace tpu::lowering {
namespace {

enum class Border { kReflect, kReplicate };

Ints Only(int64_t rank, int64_t dim, int64_t amount) {
  Ints list(rank, 0);
  list[dim] = amount;
  return list;
}

Value PadZeros(Builder& b, Value x, int64_t dim, int64_t low, int64_t high) {
  return b.Pad(x, b.ConstLike(0, x), Only(x.rank(), dim, low), Only(x.rank(), dim, high));
}

// `count` places before (after) x.
Value Edge(Builder& b, Value x, int64_t dim, int64_t count, bool before, Border border) {
  int64_t n = x.dim(dim);
  if (border == Border::kReflect) {
    int64_t begin = before ? 1 : n - 1 - count;
    return b.Reverse(b.SliceDim(x, dim, begin, begin + count), Ints{dim});
  }
  int64_t at = before ? 0 : n - 1;
  Ints dims = x.dims();
  dims[dim] = count;
  return b.BroadcastTo(b.SliceDim(x, dim, at, at + 1), dims);
}

// Negative amounts crop.
Value PadDim(Builder& b, Value x, int64_t dim, int64_t low, int64_t high, Border border) {
  std::vector<Value> parts;
  if (low > 0) parts.push_back(Edge(b, x, dim, low, true, border));
  parts.push_back(x);
  if (high > 0) parts.push_back(Edge(b, x, dim, high, false, border));
  if (parts.size() > 1) x = b.Concat(parts, dim);
  if (low < 0 || high < 0) x = PadZeros(b, x, dim, std::min<int64_t>(low, 0), std::min<int64_t>(high, 0));
  return x;
}

// What the edge's gradient adds to x of size n.
Value EdgeAdjoint(Builder& b, Value edge, int64_t dim, int64_t n, bool before, Border border) {
  int64_t count = edge.dim(dim);
  if (border == Border::kReflect) {
    int64_t begin = before ? 1 : n - 1 - count;
    return PadZeros(b, b.Reverse(edge, Ints{dim}), dim, begin, n - count - begin);
  }
  return PadZeros(b, b.Sum(edge, dim), dim, before ? 0 : n - 1, before ? n - 1 : 0);
}

Value PadDimAdjoint(Builder& b, Value grad, int64_t dim, int64_t low, int64_t high, int64_t n, Border border) {
  if (low < 0 || high < 0) grad = PadZeros(b, grad, dim, std::max<int64_t>(-low, 0), std::max<int64_t>(-high, 0));
  low = std::max<int64_t>(low, 0), high = std::max<int64_t>(high, 0);
  Value sum = b.SliceDim(grad, dim, low, low + n);
  if (low > 0) sum = sum + EdgeAdjoint(b, b.SliceDim(grad, dim, 0, low), dim, n, true, border);
  if (high > 0) sum = sum + EdgeAdjoint(b, b.SliceDim(grad, dim, low + n, low + n + high), dim, n, false, border);
  return sum;
}

// `padding` lists {low, high} from the last dimension back.
template <Border border>
Value EdgePad(Builder& b, Value x, Ints padding) {
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    x = PadDim(b, x, x.rank() - 1 - static_cast<int64_t>(i), padding[2 * i], padding[2 * i + 1], border);
  }
  return x;
}

template <Border border>
Value EdgePadBackward(Builder& b, Value grad, Value x, Ints padding) {
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    int64_t dim = x.rank() - 1 - static_cast<int64_t>(i);
    grad = PadDimAdjoint(b, grad, dim, padding[2 * i], padding[2 * i + 1], x.dim(dim), border);
  }
  return grad;
}

LOWER("reflection_pad1d", EdgePad<Border::kReflect>, kExact);
LOWER("reflection_pad2d", EdgePad<Border::kReflect>, kExact);
LOWER("reflection_pad3d", EdgePad<Border::kReflect>, kExact);
LOWER("replication_pad1d", EdgePad<Border::kReplicate>, kExact);
LOWER("replication_pad2d", EdgePad<Border::kReplicate>, kExact);
LOWER("replication_pad3d", EdgePad<Border::kReplicate>, kExact);
LOWER("reflection_pad1d_backward", EdgePadBackward<Border::kReflect>);
LOWER("reflection_pad2d_backward", EdgePadBackward<Border::kReflect>);
LOWER("reflection_pad3d_backward", EdgePadBackward<Border::kReflect>);
LOWER("replication_pad1d_backward", EdgePadBackward<Border::kReplicate>);
LOWER("replication_pad2d_backward", EdgePadBackward<Border::kReplicate>);
LOWER("replication_pad3d_backward", EdgePadBackward<Border::kReplicate>);

}  // namespace
}  // namespace tpu::lowering
