// L D L^T and L D L^H of symmetric and Hermitian matrices with Bunch and Kaufman's pivots, and the systems they solve. The
// factors and pivots are those of LAPACK's sytrf and hetrf for the lower triangle.
#include <cmath>

#include "lowering/matrix_stack.h"

namespace tpu::lowering {
namespace {

// Row `place` (i32[batch, 1]) of each matrix, and the element there of each vector: [batch, n], [batch, 1].
Value RowOf(Builder& b, Value x, Value place) { return b.Squeeze(TakeRowsOfEach(b, x, place), 1); }
Value ElementOf(Builder& b, Value x, Value place) { return b.TakeAlong(x, 1, place); }

Value ColumnOf(Builder& b, Value x, Value k) {
  Value zero = b.ConstInt(0, DType::kI32);
  return b.Squeeze(b.DynamicSlice(x, std::vector<Value>{zero, zero, k}, Ints{x.dim(0), x.dim(1), 1}), 2);
}

// The whole matrix that the lower triangle stands for.
Value Mirror(Builder& b, Value x, bool hermitian) {
  Value below = Tril(b, x, -1), eye = Eye(b, x.dim(1), x.dim(1), x.dtype());
  Value above = b.SwapDims(hermitian ? b.Conj(below) : below, 1, 2);
  return below + above + b.Select(b.Cast(eye, DType::kBool), hermitian ? b.Cast(b.Real(x), x.dtype()) : x, 0.0);
}

// Where step k takes its pivot from.
struct Choice {
  Value place;    // i32[batch, 1]: this row and column come to k, or in a block of two to k + 1
  Value two;      // bool[batch, 1]: the block is 2x2
  Value nothing;  // bool[batch, 1]: the column is zero, or NaN
};

Choice ChoosePivot(Builder& b, Value rest, Value k) {
  const double alpha = (1 + std::sqrt(17.0)) / 8;
  int64_t batch = rest.dim(0), n = rest.dim(1);
  Value places = Places(b, n);
  Value here = b.BroadcastTo(k, Ints{batch, 1});
  Value column = SizeOf(b, ColumnOf(b, rest, k));
  Value pivot = ElementOf(b, column, here);
  auto [largest, at] = b.ArgMax(b.Select(b.Gt(places, k), column, -1.0), 1);
  Value column_max = b.Max(largest, 0.0), row_place = b.Cast(at, DType::kI32);
  Value row = SizeOf(b, RowOf(b, rest, row_place));
  Value others = b.And(b.Ge(places, k), b.Ne(places, row_place));
  Value row_max = b.Max(b.Select(others, row, 0.0), Ints{1});
  Value nothing = b.Or(b.Eq(b.Max(pivot, column_max), 0.0), b.Ne(pivot, pivot));
  Value large = b.Ge(pivot, alpha * column_max);
  large = b.Or(large, b.Ge(pivot, alpha * column_max * (column_max / b.Select(b.Gt(row_max, 0.0), row_max, 1.0))));
  Value stays = b.Or(large, nothing);
  Value other = b.Ge(ElementOf(b, row, row_place), alpha * row_max);
  return {b.Select(stays, here, row_place), b.Not(b.Or(stays, other)), nothing};
}

// {factors, pivots i32[batch, n], info i32[batch]} of [batch, n, n].
std::vector<Value> Factors(Builder& b, Value x, bool hermitian) {
  int64_t batch = x.dim(0), n = x.dim(1);
  Value none = b.Full(Ints{batch, n}, 0.0, DType::kI32), info = b.Full(Ints{batch}, 0.0, DType::kI32);
  if (x.numel() == 0) return {x, none, info};
  Value places = Places(b, n), zero = b.ConstInt(0, DType::kI32);
  Value rows = b.Unsqueeze(places, 2), columns = b.Unsqueeze(places, 1);
  auto conj = [&](Value v) { return hermitian ? b.Conj(v) : v; };
  // State: k, what is left to factorize, the factors, pivots, info, whether column k was done with the one before it.
  std::vector<Value> state = b.While(
      std::vector<Value>{zero, Mirror(b, x, hermitian), b.ZerosLike(x), none, info,
                         b.Full(Ints{batch, 1}, 0.0, DType::kBool)},
      [&](Builder&, std::span<const Value> s) { return b.Lt(s[0], static_cast<double>(n)); },
      [&](Builder&, std::span<const Value> s) {
        Value k = s[0], active = b.Not(s[5]);
        Choice choice = ChoosePivot(b, s[1], k);
        Value two = b.And(choice.two, active), acts = b.And(active, b.Not(choice.nothing));
        Value last = b.Add(k, b.Cast(two, DType::kI32));  // of the block
        Value from = b.Select(acts, choice.place, b.BroadcastTo(k, Ints{batch, 1}));
        Value order = b.Select(b.Eq(places, last), from, b.Select(b.Eq(places, from), last, places));
        order = b.Select(acts, order, places);
        Value rest = TakeRowsOfEach(b, s[1], order);
        rest = b.SwapDims(TakeRowsOfEach(b, b.SwapDims(rest, 1, 2), order), 1, 2);

        Value next = b.Min(k + 1.0, static_cast<double>(n - 1));
        Value c1 = ColumnOf(b, rest, k), c2 = ColumnOf(b, rest, next);
        auto at = [&](Value column, Value place) { return ElementOf(b, column, b.BroadcastTo(place, Ints{batch, 1})); };
        auto safe = [&](Value v) { return b.Select(b.Eq(v, 0.0), 1.0, v); };
        Value corner = at(c1, k), link = safe(at(c1, next)), far = at(c2, next);
        // A block of two: the rows of [c1 c2] D^-1, as sytf2 scales them.
        Value d11 = far / link, d22 = corner / conj(link), scale = safe(d11 * d22 - 1.0);
        Value w1 = (d11 * c1 - c2) / (scale * conj(link)), w2 = (d22 * c2 - c1) / (scale * link);
        w1 = b.Select(two, w1, c1 * (1.0 / safe(corner)));
        Value below = b.And(b.Gt(places, last), acts);
        w1 = b.Select(below, w1, 0.0), w2 = b.Select(b.And(below, two), w2, 0.0);
        auto outer = [&](Value u, Value v) { return b.Unsqueeze(u, 2) * b.Unsqueeze(conj(v), 1); };
        Value left = rest - outer(b.Select(below, c1, 0.0), w1) - outer(b.Select(below, c2, 0.0), w2);

        Value first = b.Select(b.Or(b.Eq(places, k), b.And(two, b.Eq(places, next))), c1, w1);
        Value second = b.Select(b.Eq(places, next), c2, w2);
        auto write = [&](Value factors, Value column, Value place, Value when) {
          Value here = b.And(b.And(b.Eq(columns, place), b.Ge(rows, place)), b.Unsqueeze(when, 2));
          return b.Select(here, b.Unsqueeze(column, 2), factors);
        };
        Value factors = write(write(s[2], first, k, active), second, next, two);
        Value pivot = b.Select(two, -(from + 1.0), from + 1.0);
        Value pivots = b.Select(b.And(b.Eq(places, k), active), pivot, s[3]);
        pivots = b.Select(b.And(b.Eq(places, next), two), pivot, pivots);
        Value fails = b.Reshape(b.And(active, choice.nothing), Ints{batch});
        Value found = b.Select(b.And(fails, b.Eq(s[4], 0.0)), k + 1.0, s[4]);
        return std::vector<Value>{k + 1.0, Mirror(b, left, hermitian), factors, pivots, found, two};
      });
  return {state[2], state[3], state[4]};
}

std::vector<Value> LdlFactorEx(Builder& b, Value a, bool hermitian, bool /*check_errors*/) {
  Ints lead = StackDims(a);
  std::vector<Value> results = Factors(b, ToStack(b, a), hermitian && IsComplex(a.dtype()));
  for (Value& result : results) result = FromStack(b, result, lead);
  return results;
}
LOWER("linalg_ldl_factor_ex", LdlFactorEx);

// v[i + 1] (by = 1) or v[i - 1] (by = -1) at place i of dimension 1, in a ring.
Value Neighbour(Builder& b, Value v, int by) {
  int64_t n = v.dim(1), cut = by > 0 ? 1 : n - 1;
  return b.Concat(std::vector<Value>{b.SliceDim(v, 1, cut, n), b.SliceDim(v, 1, 0, cut)}, 1);
}

// The factors with all row exchanges made at once: P A P^T = L D L^T.
struct Standard {
  Value lower, order;    // L with a unit diagonal (not stored), and i32[batch, n]
  Value starts;          // bool[batch, n]: a 2x2 block of D starts here
  Value diagonal, link;  // of D: [batch, n]; `link` is the element below the diagonal where a block starts
};

Standard Standardize(Builder& b, Value factors, Value pivots) {
  int64_t batch = factors.dim(0), n = factors.dim(1);
  Value places = Places(b, n), zero = b.ConstInt(0, DType::kI32);
  Value paired = b.Lt(pivots, 0.0), counts = b.Cast(paired, DType::kI32);
  // Of two rows with a negative pivot the one with an even number of such before it is the first.
  Value before = b.Sum(b.Select(LowerMask(b, n, n, -1), b.Unsqueeze(counts, 1), 0.0), Ints{2}, false);
  Value odd = b.Eq(b.Rem(before, b.ConstInt(2, DType::kI32)), 1.0);
  Value starts = b.And(paired, b.Not(odd)), ends = b.And(paired, odd);
  Value partner = b.Select(paired, b.Select(ends, -pivots - 1.0, places), pivots - 1.0);
  Value limit = b.Select(ends, places - 1.0, places);  // columns before this one take part in the exchange

  Value rows = b.Unsqueeze(places, 2), columns = b.Unsqueeze(places, 1);
  Value is_link = b.And(b.Eq(rows, columns + 1.0), b.Unsqueeze(starts, 1));
  Value link = b.Sum(b.Select(is_link, factors, 0.0), Ints{1}, false);
  Value lower = b.Select(is_link, 0.0, Tril(b, factors, -1));
  std::vector<Value> state = b.While(
      std::vector<Value>{zero, lower, b.BroadcastTo(places, Ints{batch, n})},
      [&](Builder&, std::span<const Value> s) { return b.Lt(s[0], static_cast<double>(n)); },
      [&](Builder&, std::span<const Value> s) {
        Value k = s[0], here = b.BroadcastTo(k, Ints{batch, 1});
        Value other = ElementOf(b, partner, here);
        Value order = b.Select(b.Eq(places, k), other, b.Select(b.Eq(places, other), k, places));
        Value exchanged = b.Lt(columns, b.Unsqueeze(ElementOf(b, limit, here), 2));
        return std::vector<Value>{k + 1.0, b.Select(exchanged, TakeRowsOfEach(b, s[1], order), s[1]),
                                  b.TakeAlong(s[2], 1, order)};
      });
  return {state[1], state[2], starts, Diagonal(b, factors), link};
}

// D^-1 y.
Value SolveBlocks(Builder& b, const Standard& f, Value y, bool hermitian) {
  Value starts = b.Unsqueeze(f.starts, 2), ends = Neighbour(b, starts, -1);
  Value link = b.Select(starts, b.Unsqueeze(f.link, 2), 1.0), back = hermitian ? b.Conj(link) : link;
  Value diagonal = b.Unsqueeze(f.diagonal, 2);
  Value top = diagonal / back, bottom = Neighbour(b, diagonal, 1) / link;
  Value divisor = b.Select(starts, top * bottom - 1.0, 1.0);
  Value y1 = y / back, y2 = Neighbour(b, y, 1) / link;
  Value first = (bottom * y1 - y2) / divisor, second = (top * y2 - y1) / divisor;
  Value single = y / b.Select(b.Or(starts, ends), 1.0, diagonal);
  return b.Select(starts, first, b.Select(ends, Neighbour(b, second, -1), single));
}

Value LdlSolve(Builder& b, Value factors, Value pivots, Value y, bool hermitian) {
  Ints lead = hlo::BroadcastDims(StackDims(factors), StackDims(y));
  y = ToStack(b, ExpandStack(b, y, lead));
  if (y.numel() == 0) return FromStack(b, y, lead);
  Value stack = ToStack(b, ExpandStack(b, factors, lead));
  Ints pivot_dims = Join(lead, Ints{pivots.dim(-1)});
  Value places = b.Reshape(b.BroadcastTo(b.Cast(pivots, DType::kI32), pivot_dims), Ints{stack.dim(0), pivots.dim(-1)});
  hermitian = hermitian && IsComplex(factors.dtype());
  Standard f = Standardize(b, stack, places);
  Value x = b.TriangularSolve(f.lower, TakeRowsOfEach(b, y, f.order), true, true, true, "NO_TRANSPOSE");
  x = SolveBlocks(b, f, x, hermitian);
  x = b.TriangularSolve(f.lower, x, true, true, true, hermitian ? "ADJOINT" : "TRANSPOSE");
  return FromStack(b, TakeRowsOfEach(b, x, InversePermutation(b, f.order)), lead);
}
LOWER("linalg_ldl_solve", LdlSolve);

}  // namespace
}  // namespace tpu::lowering
