#include "lowering/matrix_stack.h"

#include <algorithm>

namespace tpu::lowering {

Ints Join(Ints lead, std::span<const int64_t> tail) {
  lead.insert(lead.end(), tail.begin(), tail.end());
  return lead;
}

Value ToStack(Builder& b, Value x) { return b.Reshape(x, Ints{hlo::NumElements(StackDims(x)), x.dim(-2), x.dim(-1)}); }

Value FromStack(Builder& b, Value x, const Ints& lead) {
  return b.Reshape(x, Join(lead, std::span(x.dims()).subspan(1)));
}

Value ExpandStack(Builder& b, Value x, const Ints& lead) {
  return b.BroadcastTo(x, Join(lead, Ints{x.dim(-2), x.dim(-1)}));
}

Value ConjTranspose(Builder& b, Value x) { return b.SwapDims(b.Conj(x), -1, -2); }

Value Eye(Builder& b, int64_t rows, int64_t columns, DType dtype) {
  Ints dims = {rows, columns};
  return b.Cast(b.Eq(b.Iota(dims, 0, DType::kI32), b.Iota(dims, 1, DType::kI32)), dtype);
}

Value LowerMask(Builder& b, int64_t rows, int64_t columns, int64_t diagonal) {
  Ints dims = {rows, columns};
  return b.Le(b.Iota(dims, 1, DType::kI32) - b.Iota(dims, 0, DType::kI32), static_cast<double>(diagonal));
}

Value Tril(Builder& b, Value x, int64_t diagonal) {
  return b.Select(LowerMask(b, x.dim(-2), x.dim(-1), diagonal), x, 0.0);
}

Value Triu(Builder& b, Value x, int64_t diagonal) {
  return b.Select(LowerMask(b, x.dim(-2), x.dim(-1), diagonal - 1), 0.0, x);
}

Value Places(Builder& b, int64_t n) { return b.Iota(Ints{1, n}, 1, DType::kI32); }

Value SizeOf(Builder& b, Value x) { return IsComplex(x.dtype()) ? b.Abs(b.Real(x)) + b.Abs(b.Imag(x)) : b.Abs(x); }

Value Diagonal(Builder& b, Value x) {
  int64_t size = std::min(x.dim(-2), x.dim(-1));
  x = b.SliceDim(b.SliceDim(x, -2, 0, size), -1, 0, size);
  return b.Sum(b.Select(b.Cast(Eye(b, size, size, DType::kI32), DType::kBool), x, 0.0), Ints{x.rank() - 1}, false);
}

Value TakeRowsOfEach(Builder& b, Value x, Value order) {
  Ints dims = {x.dim(0), order.dim(1), x.dim(2)};
  return b.TakeAlong(x, 1, b.BroadcastInDim(order, dims, Ints{0, 1}));
}

Value InversePermutation(Builder& b, Value permutation) {
  // Place i of the inverse is where the permutation holds i.
  int64_t n = permutation.dim(1);
  Ints dims = {permutation.dim(0), n, n};
  Value here = b.Eq(b.BroadcastInDim(permutation, dims, Ints{0, 2}), b.Iota(dims, 1, DType::kI32));
  return b.Sum(b.Select(here, b.Iota(dims, 2, DType::kI32), 0.0), Ints{2}, false);
}

// Row k of each matrix in turn, with the rest of the matrix updated at once (right-looking, unblocked).
Lu Factorize(Builder& b, Value x, bool pivot) {
  int64_t batch = x.dim(0), m = x.dim(1), n = x.dim(2), steps = std::min(m, n);
  Value rows = b.Iota(Ints{batch, m}, 1, DType::kI32);
  Lu lu{x, b.Full(Ints{batch, steps}, 0.0, DType::kI32), rows, b.Full(Ints{batch}, 0.0, DType::kI32)};
  if (batch == 0 || steps == 0) return lu;
  Value zero = b.ConstInt(0, DType::kI32);
  auto column_mask = b.Iota(Ints{1, 1, n}, 2, DType::kI32);
  std::vector<Value> state = b.While(
      std::vector<Value>{zero, lu.factors, lu.pivots, lu.permutation, lu.info},
      [&](Builder&, std::span<const Value> v) { return b.Lt(v[0], static_cast<double>(steps)); },
      [&](Builder&, std::span<const Value> v) {
        Value k = v[0], a = v[1], permutation = v[3];
        auto column = [&](Value matrix) {
          std::vector<Value> at = {zero, zero, k};
          return b.Reshape(b.DynamicSlice(matrix, at, Ints{batch, m, 1}), Ints{batch, m});
        };
        Value chosen = b.BroadcastTo(k, Ints{batch, 1});
        if (pivot) {
          Value size = b.Select(b.Ge(rows, k), SizeOf(b, column(a)), -1.0);
          chosen = b.Cast(b.ArgMax(size, 1).second, DType::kI32);
        }
        // Rows k and `chosen` change places.
        Value order = b.Select(b.Eq(rows, k), chosen, b.Select(b.Eq(rows, chosen), k, rows));
        a = TakeRowsOfEach(b, a, order);
        permutation = b.TakeAlong(permutation, 1, order);
        Value pivots = b.DynamicUpdateSlice(v[2], chosen + 1.0, std::vector<Value>{zero, k});
        Value top = b.DynamicSlice(a, std::vector<Value>{zero, k, zero}, Ints{batch, 1, n});
        Value head = column(a);
        Value corner = b.DynamicSlice(head, std::vector<Value>{zero, k}, Ints{batch, 1});
        Value singular = b.Eq(corner, 0.0);
        // A zero pivot leaves its column, which is zero, as it is.
        Value factor = b.Select(b.Gt(rows, k), b.Select(singular, head, head / b.Select(singular, 1.0, corner)), 0.0);
        Value below = b.Unsqueeze(factor, 2);
        Value right = b.Select(b.Gt(column_mask, k), top, 0.0);
        Value row3 = b.Unsqueeze(rows, 2);
        a = b.Select(b.And(b.Gt(row3, k), b.Eq(column_mask, k)), below, a - below * right);
        Value first = b.And(b.Eq(v[4], 0.0), b.Reshape(singular, Ints{batch}));
        return std::vector<Value>{k + 1.0, a, pivots, permutation, b.Select(first, k + 1.0, v[4])};
      });
  return {state[1], state[2], state[3], state[4]};
}

Value SolveFactorized(Builder& b, Value factors, Value permutation, Value y, bool adjoint) {
  // A = P L U, and (P^T y)[i] = y[permutation[i]].
  if (!adjoint) {
    y = b.TriangularSolve(factors, TakeRowsOfEach(b, y, permutation), true, true, true, "NO_TRANSPOSE");
    return b.TriangularSolve(factors, y, true, false, false, "NO_TRANSPOSE");
  }
  y = b.TriangularSolve(factors, y, true, false, false, "ADJOINT");
  y = b.TriangularSolve(factors, y, true, true, true, "ADJOINT");
  return TakeRowsOfEach(b, y, InversePermutation(b, permutation));
}

std::pair<Value, Value> Geqrf(Builder& b, Value x) {
  int64_t steps = std::min(x.dim(-2), x.dim(-1));
  Type tau{x.dtype(), Join(StackDims(x), Ints{steps})};
  if (x.numel() == 0) return {x, b.Zeros(tau)};
  std::vector<Value> out = b.CustomCall("Qr", std::vector<Value>{x}, std::vector<Type>{x.type(), tau});
  return {out[0], out[1]};
}

Value HouseholderProduct(Builder& b, Value reflectors, Value tau, int64_t columns) {
  // There are at most m reflectors; a wide matrix holds more of R beside them.
  if (reflectors.dim(-1) > reflectors.dim(-2)) reflectors = b.SliceDim(reflectors, -1, 0, reflectors.dim(-2));
  int64_t m = reflectors.dim(-2), given = reflectors.dim(-1);
  Ints lead = StackDims(reflectors), dims = Join(lead, Ints{m, columns});
  if (hlo::NumElements(dims) == 0 || tau.numel() == 0) {
    return b.BroadcastTo(Eye(b, m, columns, reflectors.dtype()), dims);
  }
  // Reflectors that are not there have tau zero.
  Ints none(lead.size() + 2, 0), more = none;
  more.back() = std::max<int64_t>(columns - given, 0);
  if (more.back() > 0) reflectors = b.Pad(reflectors, b.ConstLike(0, reflectors), none, more);
  Ints tau_none(lead.size() + 1, 0), tau_more = tau_none;
  tau_more.back() = reflectors.dim(-1) - tau.dim(-1);
  if (tau_more.back() > 0) tau = b.Pad(tau, b.ConstLike(0, tau), tau_none, tau_more);
  Value q = b.CustomCall("ProductOfElementaryHouseholderReflectors", std::vector<Value>{reflectors, tau},
                         std::vector<Type>{reflectors.type()})[0];
  return b.SliceDim(q, -1, 0, columns);
}

}  // namespace tpu::lowering
