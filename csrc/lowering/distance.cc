// Distances between the rows of matrices, their gradients, and the cross product.
#include <cmath>

#include "lowering/norm.h"
#include "lowering/reduction.h"
#include "lowering/search.h"

namespace tpu::lowering {
namespace {

// sqrt(|x|^2 + |y|^2 - 2 x.y) as one product: [-2 x, |x|^2, 1] [y, 1, |y|^2]^T.
Value EuclideanDist(Builder& b, Value x, Value y) {
  Value x2 = b.Sum(b.Square(x), -1), y2 = b.Sum(b.Square(y), -1);
  Value left = b.Concat(std::array{x * -2.0, x2, b.Full(x2.dims(), 1.0, x2.dtype())}, -1);
  Value right = b.Concat(std::array{y, b.Full(y2.dims(), 1.0, y2.dtype()), y2}, -1);
  return b.Sqrt(b.Max(b.MatMul(left, b.SwapDims(right, -1, -2)), 0.0));
}
LOWER("_euclidean_dist", EuclideanDist);

// x_i - y_j as [..., i, j, feature]
Value Differences(Builder& b, Value x, Value y) { return b.Unsqueeze(x, x.rank() - 1) - b.Unsqueeze(y, y.rank() - 2); }

// compute_mode as PyTorch: the product form for p = 2 if asked for (1), or if left open (0) and either side is long.
Value CdistForward(Builder& b, Value x, Value y, double p, std::optional<int64_t> compute_mode) {
  constexpr int64_t kLong = 25;
  int64_t mode = compute_mode.value_or(0);
  if (x.dim(-1) == 0) return b.Zeros(b.Expected());
  if (p == 2 && (mode == 1 || (mode == 0 && (x.dim(-2) > kLong || y.dim(-2) > kLong)))) return EuclideanDist(b, x, y);
  Value difference = Differences(b, x, y);
  return b.Reshape(Norm(b, difference, p, Ints{difference.rank() - 1}), b.Expected().dims);
}
LOWER("_cdist_forward", CdistForward);

// d |v|_p / d v = sign(v) (|v| / distance)^(p - 1), times g; 0 where the distance is.
Value NormGrad(Builder& b, Value v, Value g, Value distance, double p) {
  if (p == 0) return b.ZerosLike(v);
  Value sign = b.Sign(v), magnitude = b.Abs(v);
  if (p == 1) return g * sign;
  if (std::isinf(p)) return g * sign * b.Cast(b.Eq(magnitude, distance), v.dtype());
  Value zero = b.Eq(distance, 0.0);
  if (p == 2) return b.Select(zero, 0.0, g * v / distance);
  Value power = b.ConstLike(p - 1, v);
  Value slope = b.Select(zero, 0.0, sign * b.Pow(magnitude, power) * g / b.Pow(distance, power));
  return p < 1 ? b.Select(b.Eq(magnitude, 0.0), 0.0, slope) : slope;
}

Value CdistBackward(Builder& b, Value grad, Value x, Value y, double p, Value distance) {
  if (x.numel() == 0 || y.numel() == 0 || grad.numel() == 0) return b.Zeros(b.Expected());
  Value slope = NormGrad(b, Differences(b, x, y), b.Unsqueeze(grad, -1), b.Unsqueeze(distance, -1), p);
  return b.Sum(slope, Ints{slope.rank() - 2}, false);
}
LOWER("_cdist_backward", CdistBackward);

// --- pdist: the pairs i < j of n rows, row by row; those of row i start at i (2n - i - 1) / 2
Value PdistForward(Builder& b, Value x, double p) {
  int64_t n = x.dim(0), pairs = n * (n - 1) / 2;
  if (pairs == 0 || x.dim(1) == 0) return b.Full(Ints{std::max<int64_t>(pairs, 0)}, 0.0, x.dtype());
  Ints starts(n);
  for (int64_t i = 0; i < n; ++i) starts[i] = i * (2 * n - i - 1) / 2;
  Value start = b.ConstInts(starts), pair = b.Iota(pairs);
  Value row = b.Cast(SearchSorted(b, start, pair, /*right=*/true), DType::kI64) - 1.0;
  Value column = pair - b.TakeRows(start, row) + row + 1.0;
  return b.Reshape(Norm(b, b.TakeRows(x, row) - b.TakeRows(x, column), p, Ints{1}), Ints{pairs});
}
LOWER("_pdist_forward", PdistForward);

Value PdistBackward(Builder& b, Value grad, Value x, double p, Value distance) {
  int64_t n = x.dim(0);
  if (distance.numel() == 0 || x.numel() == 0) return b.ZerosLike(x);
  Ints square{n, n};
  Value i = b.Iota(square, 0), j = b.Iota(square, 1);
  Value low = b.Min(i, j), high = b.Max(i, j), same = b.Eq(i, j);
  Value pair = low * ((2.0 * static_cast<double>(n) - 1.0) - low) / 2.0 + high - low - 1.0;
  pair = b.Select(same, 0.0, pair);
  auto as_matrix = [&](Value v) { return b.Unsqueeze(b.Select(same, 0.0, b.TakeRows(v, pair)), 2); };
  return b.Sum(NormGrad(b, Differences(b, x, x), as_matrix(grad), as_matrix(distance), p), Ints{1}, false);
}
LOWER("_pdist_backward", PdistBackward);

// Components k+1 and k+2 (mod 3): x_(k+1) y_(k+2) - x_(k+2) y_(k+1).
Value Cross(Builder& b, Value x, Value y, Dim dim) {
  Ints dims = hlo::BroadcastDims(x.dims(), y.dims());
  auto rolled = [&](Value v, int64_t by) {
    v = b.BroadcastTo(v, dims);
    return b.Concat(std::array{b.SliceDim(v, dim, by, 3), b.SliceDim(v, dim, 0, by)}, dim);
  };
  return rolled(x, 1) * rolled(y, 2) - rolled(x, 2) * rolled(y, 1);
}
LOWER("linalg_cross", Cross);

}  // namespace
}  // namespace tpu::lowering
