// Triangular and general linear systems: LU with its uses, Cholesky, determinants, inverses.
#include <algorithm>

#include "lowering/matrix_stack.h"

namespace tpu::lowering {
namespace {

// --- triangular systems

Value SolveTriangular(Builder& b, Value a, Value y, bool upper, bool left, bool unit, std::string_view transpose) {
  Ints lead = hlo::BroadcastDims(StackDims(a), StackDims(y));
  a = ExpandStack(b, a, lead), y = ExpandStack(b, y, lead);
  if (y.numel() == 0 || a.numel() == 0) return b.ZerosLike(y);
  return b.TriangularSolve(a, y, left, !upper, unit, transpose);
}

LOWER("linalg_solve_triangular", [](Builder& b, Value a, Value y, bool upper, bool left, bool unit) {
  return SolveTriangular(b, a, y, upper, left, unit, "NO_TRANSPOSE");
});

std::pair<Value, Value> TriangularSolve(Builder& b, Value y, Value a, bool upper, bool transpose, bool unit) {
  Ints lead = hlo::BroadcastDims(StackDims(a), StackDims(y));
  Value x = SolveTriangular(b, a, y, upper, true, unit, transpose ? "TRANSPOSE" : "NO_TRANSPOSE");
  return {x, ExpandStack(b, a, lead)};
}
LOWER("triangular_solve", TriangularSolve);

// --- Cholesky

// info is the order of the first leading minor that is not positive: where the factor's diagonal turns NaN.
std::pair<Value, Value> CholeskyEx(Builder& b, Value a, bool upper, bool /*check_errors*/) {
  if (a.numel() == 0) return {a, b.Full(StackDims(a), 0.0, DType::kI32)};
  Value factor = b.Cholesky(a, !upper);
  factor = upper ? Triu(b, factor) : Tril(b, factor);
  Value diagonal = b.Real(Diagonal(b, factor));
  auto bad = b.Ne(diagonal, diagonal);
  Value place = b.Iota(diagonal.dims(), diagonal.rank() - 1, DType::kI32) + 1.0;
  constexpr double kNever = 1 << 30;
  Value first = b.Min(b.Select(bad, place, kNever), Ints{diagonal.rank() - 1}, false);
  return {factor, b.Select(b.Eq(first, kNever), 0.0, first)};
}
LOWER("linalg_cholesky_ex", CholeskyEx);

// x with A x = y from A's Cholesky factor.
Value CholeskySolve(Builder& b, Value y, Value factor, bool upper) {
  Value half = SolveTriangular(b, factor, y, upper, true, false, upper ? "ADJOINT" : "NO_TRANSPOSE");
  return SolveTriangular(b, factor, half, upper, true, false, upper ? "NO_TRANSPOSE" : "ADJOINT");
}
LOWER("_cholesky_solve_helper", CholeskySolve);
LOWER("cholesky_inverse", [](Builder& b, Value factor, bool upper) {
  return CholeskySolve(b, b.BroadcastTo(Eye(b, factor.dim(-1), factor.dim(-1), factor.dtype()), factor.dims()), factor,
                       upper);
});

// --- LU

// The row order that LAPACK's pivots [batch, k] make of m rows.
Value PermutationOf(Builder& b, Value pivots, int64_t m) {
  int64_t batch = pivots.dim(0), steps = pivots.dim(1);
  Value rows = b.Iota(Ints{batch, m}, 1, DType::kI32), zero = b.ConstInt(0, DType::kI32);
  if (batch == 0 || steps == 0) return rows;
  pivots = b.Cast(pivots, DType::kI32) - 1.0;
  return b.While(
      std::vector<Value>{zero, rows},
      [&](Builder&, std::span<const Value> v) { return b.Lt(v[0], static_cast<double>(steps)); },
      [&](Builder&, std::span<const Value> v) {
        Value other = b.DynamicSlice(pivots, std::vector<Value>{zero, v[0]}, Ints{batch, 1});
        Value order = b.Select(b.Eq(rows, v[0]), other, b.Select(b.Eq(rows, other), v[0], rows));
        return std::vector<Value>{v[0] + 1.0, b.TakeAlong(v[1], 1, order)};
      })[1];
}

// A row order as the matrix P with P (L U) the matrix: P[permutation[i], i] = 1.
Value PermutationMatrix(Builder& b, Value permutation, DType dtype) {
  int64_t m = permutation.dim(1);
  Ints dims = {permutation.dim(0), m, m};
  return b.Cast(b.Eq(b.BroadcastInDim(permutation, dims, Ints{0, 2}), b.Iota(dims, 1, DType::kI32)), dtype);
}

Value LowerFactor(Builder& b, Value factors) {
  int64_t steps = std::min(factors.dim(-2), factors.dim(-1));
  Value l = Tril(b, b.SliceDim(factors, -1, 0, steps), -1);
  return l + Eye(b, factors.dim(-2), steps, factors.dtype());
}
Value UpperFactor(Builder& b, Value factors) {
  int64_t steps = std::min(factors.dim(-2), factors.dim(-1));
  return Triu(b, b.SliceDim(factors, -2, 0, steps));
}

std::vector<Value> LuFactorEx(Builder& b, Value a, bool pivot, bool /*check_errors*/) {
  Ints lead = StackDims(a);
  Lu lu = Factorize(b, ToStack(b, a), pivot);
  return {FromStack(b, lu.factors, lead), FromStack(b, lu.pivots, lead), FromStack(b, lu.info, lead)};
}
LOWER("linalg_lu_factor_ex", LuFactorEx);

std::vector<Value> LuFactors(Builder& b, Value a, bool pivot) {
  Ints lead = StackDims(a);
  Lu lu = Factorize(b, ToStack(b, a), pivot);
  // Without pivoting there is no P.
  Value p =
      pivot ? FromStack(b, PermutationMatrix(b, lu.permutation, a.dtype()), lead) : b.Full(Ints{0}, 0.0, a.dtype());
  Value factors = FromStack(b, lu.factors, lead);
  return {p, LowerFactor(b, factors), UpperFactor(b, factors)};
}
LOWER("linalg_lu", LuFactors);

std::vector<Value> LuUnpack(Builder& b, Value factors, Value pivots, bool unpack_data, bool unpack_pivots) {
  Value none = b.Full(Ints{0}, 0.0, factors.dtype());
  Value p = none, l = none, u = none;
  if (unpack_data) l = LowerFactor(b, factors), u = UpperFactor(b, factors);
  if (unpack_pivots) {
    Ints lead = StackDims(factors);
    Value stack = b.Reshape(pivots, Ints{hlo::NumElements(lead), pivots.dim(-1)});
    p = FromStack(b, PermutationMatrix(b, PermutationOf(b, stack, factors.dim(-2)), factors.dtype()), lead);
  }
  return {p, l, u};
}
LOWER("lu_unpack", LuUnpack);

Value LuSolve(Builder& b, Value factors, Value pivots, Value y, bool left, bool adjoint) {
  Ints lead = hlo::BroadcastDims(StackDims(factors), StackDims(y));
  Value stack = ToStack(b, ExpandStack(b, factors, lead));
  Ints pivot_dims = Join(lead, Ints{pivots.dim(-1)});
  Value pivot_stack = b.Reshape(b.BroadcastTo(pivots, pivot_dims), Ints{stack.dim(0), pivots.dim(-1)});
  y = ToStack(b, ExpandStack(b, y, lead));
  if (y.numel() == 0) return FromStack(b, y, lead);
  Value permutation = PermutationOf(b, pivot_stack, factors.dim(-2));
  // X A = Y is A^H X^H = Y^H.
  Value x = left ? SolveFactorized(b, stack, permutation, y, adjoint)
                 : ConjTranspose(b, SolveFactorized(b, stack, permutation, ConjTranspose(b, y), !adjoint));
  return FromStack(b, x, lead);
}
LOWER("linalg_lu_solve", LuSolve);

// {result, LU, pivots, info}
std::vector<Value> SolveEx(Builder& b, Value a, Value y, bool left, bool /*check_errors*/) {
  Ints a_lead = StackDims(a);
  Ints vector_dims = Join(a_lead, Ints{a.dim(-1)});
  bool vector = y.rank() == 1 || (y.rank() + 1 == a.rank() && y.dims() == vector_dims);
  if (vector) y = b.Unsqueeze(y, -1);
  Lu lu = Factorize(b, ToStack(b, a), true);
  Ints lead = hlo::BroadcastDims(a_lead, StackDims(y));
  auto expand = [&](Value stack) {
    Ints tail(stack.dims().begin() + 1, stack.dims().end());
    Value spread = b.BroadcastTo(FromStack(b, stack, a_lead), Join(lead, tail));
    return b.Reshape(spread, Join(Ints{hlo::NumElements(lead)}, tail));
  };
  Value factors = expand(lu.factors), permutation = expand(lu.permutation);
  Value stack = ToStack(b, ExpandStack(b, y, lead));
  Value x = stack;
  if (stack.numel() != 0) {
    x = left || vector ? SolveFactorized(b, factors, permutation, stack, false)
                       : ConjTranspose(b, SolveFactorized(b, factors, permutation, ConjTranspose(b, stack), true));
  }
  x = FromStack(b, x, lead);
  return {vector ? b.Squeeze(x, -1) : x, FromStack(b, lu.factors, a_lead), FromStack(b, lu.pivots, a_lead),
          FromStack(b, lu.info, a_lead)};
}
LOWER("_linalg_solve_ex", SolveEx);

std::pair<Value, Value> InvEx(Builder& b, Value a, bool /*check_errors*/) {
  Ints lead = StackDims(a);
  Value stack = ToStack(b, a);
  Lu lu = Factorize(b, stack, true);
  Value eye = b.BroadcastTo(Eye(b, a.dim(-1), a.dim(-1), a.dtype()), stack.dims());
  Value inverse = stack.numel() == 0 ? stack : SolveFactorized(b, lu.factors, lu.permutation, eye, false);
  return {FromStack(b, inverse, lead), FromStack(b, lu.info, lead)};
}
LOWER("linalg_inv_ex", InvEx);

// +1 or -1: whether the pivots change an even number of rows. [batch]
Value PermutationSign(Builder& b, Value pivots, DType dtype) {
  Value moved = b.Ne(pivots - 1.0, b.Iota(pivots.dims(), 1, DType::kI32));
  Value odd = b.Rem(b.Sum(b.Cast(moved, DType::kI32), Ints{1}, false), b.ConstInt(2, DType::kI32));
  return b.Cast(1.0 - 2.0 * odd, dtype);
}

// What the backward of det and slogdet expects: the factors of A^T where A is real and contiguous, else A's (see
// linalg_det_backward in FunctionsManual.cpp). A lowering sees no strides, so a real A counts as contiguous.
Value KeptMatrix(Builder& b, Value a) { return IsComplex(a.dtype()) ? a : b.SwapDims(a, -1, -2); }

// {det, LU, pivots}
std::vector<Value> Det(Builder& b, Value a) {
  Ints lead = StackDims(a);
  Lu lu = Factorize(b, ToStack(b, KeptMatrix(b, a)), true);
  Value det = PermutationSign(b, lu.pivots, a.dtype()) * b.Prod(Diagonal(b, lu.factors), Ints{1}, false);
  return {FromStack(b, det, lead), FromStack(b, lu.factors, lead), FromStack(b, lu.pivots, lead)};
}
LOWER("_linalg_det", Det);

// {sign, log |det|, LU, pivots}
std::vector<Value> Slogdet(Builder& b, Value a) {
  Ints lead = StackDims(a);
  Lu lu = Factorize(b, ToStack(b, KeptMatrix(b, a)), true);
  Value diagonal = Diagonal(b, lu.factors);
  Value size = b.Abs(diagonal);
  Value unit = IsComplex(a.dtype()) ? b.Select(b.Eq(size, 0.0), 0.0, diagonal / b.Select(b.Eq(size, 0.0), 1.0, size))
                                    : b.Sign(diagonal);
  Value sign = PermutationSign(b, lu.pivots, a.dtype()) * b.Prod(unit, Ints{1}, false);
  Value logabsdet = b.Sum(b.Log(size), Ints{1}, false);
  return {FromStack(b, sign, lead), FromStack(b, logabsdet, lead), FromStack(b, lu.factors, lead),
          FromStack(b, lu.pivots, lead)};
}
LOWER("_linalg_slogdet", Slogdet);

}  // namespace
}  // namespace tpu::lowering
