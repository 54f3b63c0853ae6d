// exp of a matrix by a Taylor polynomial, scaling and squaring.
#include <cmath>

#include "lowering/matrix_stack.h"

namespace tpu::lowering {
namespace {

// exp(A) = exp(A / 2^s)^(2^s) with s so large that |A / 2^s| <= 1, where 18 terms leave less than a double's epsilon.
Value MatrixExp(Builder& b, Value a) {
  constexpr int kTerms = 18;
  if (a.numel() == 0) return a;
  Ints lead = StackDims(a);
  Value x = ToStack(b, a);
  DType dtype = x.dtype();
  Value norm = b.Max(b.Sum(b.Abs(x), 1), Ints{2});  // [batch, 1, 1]
  Value squarings = b.Ceil(b.Log(b.Max(norm, 1.0)) / std::log(2.0));
  // Infinities and NaN need no squarings to spread.
  squarings = b.Select(b.IsFinite(squarings), squarings, 0.0);
  squarings = b.Min(squarings, 62.0);
  Value power = b.ShiftLeft(b.ConstInt(1), b.Cast(squarings, DType::kI64));
  x = x / b.Cast(b.Cast(power, norm.dtype()), dtype);
  Value eye = b.BroadcastTo(Eye(b, x.dim(1), x.dim(1), dtype), x.dims());
  Value sum = eye + x / static_cast<double>(kTerms);
  for (int k = kTerms - 1; k >= 1; --k) sum = eye + b.MatMul(x, sum) / static_cast<double>(k);
  Value most = b.Reshape(b.Max(squarings, Ints{}), Ints{});
  Value result = b.While(
      std::vector<Value>{b.Const(0.0, most.dtype()), sum},
      [&](Builder&, std::span<const Value> v) { return b.Lt(v[0], most); },
      [&](Builder&, std::span<const Value> v) {
        return std::vector<Value>{v[0] + 1.0, b.Select(b.Lt(v[0], squarings), b.MatMul(v[1], v[1]), v[1])};
      })[1];
  return FromStack(b, result, lead);
}
LOWER("linalg_matrix_exp", MatrixExp);

}  // namespace
}  // namespace tpu::lowering
