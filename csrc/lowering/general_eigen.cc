// Eigenvalues and eigenvectors of general matrices: Hessenberg form, then implicitly shifted QR (Golub and Van Loan, 7.4
// and 7.5) with LAPACK's shifts (lahqr), so that eigenvalues come in LAPACK's order. Real matrices take two conjugate
// shifts at a time and stay real until the end. Each matrix of a stack is at its own place in its own window: a step of the
// loop is one reflection of each.
#include <algorithm>
#include <limits>

#include "lowering/elementwise.h"
#include "lowering/matrix_stack.h"

namespace tpu::lowering {
namespace {

double Tiny(DType dtype) {
  return RealOf(dtype) == DType::kF64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
}

// v[i + 1] at place i, zero at the end; v[i - 1], zero at the beginning.
Value After(Builder& b, Value v) { return b.Pad(v, b.ConstLike(0, v), Ints{0, -1}, Ints{0, 1}); }
Value Before(Builder& b, Value v) { return b.Pad(v, b.ConstLike(0, v), Ints{0, 1}, Ints{0, -1}); }

// Elements of [batch, n] at `places` (i32[batch, 1]); zero for a place outside.
Value Pick(Builder& b, Value v, Value place) { return b.Sum(b.Select(b.Eq(Places(b, v.dim(1)), place), v, 0.0), 1); }
Value PickColumn(Builder& b, Value x, Value place) {
  return b.Sum(b.Select(b.Unsqueeze(b.Eq(Places(b, x.dim(2)), place), 1), x, 0.0), Ints{2}, false);
}

Value Times(Builder& b, Value x, Value v) { return b.Squeeze(b.MatMul(x, b.Unsqueeze(v, 2)), 2); }
Value Outer(Builder& b, Value u, Value v) { return b.Unsqueeze(u, 2) * b.Unsqueeze(b.Conj(v), 1); }

// A = Z H Z^H.
struct Similar {
  Value h, z;
};

// P H P and Z P for the reflection P that takes v, which is zero before `place`, to a multiple of its unit vector.
Similar Reflect(Builder& b, Similar a, Value v, Value place) {
  Value norm2 = b.Sum(b.Real(v * b.Conj(v)), 1);
  Value head = Pick(b, v, place), size = b.Abs(head);
  Value phase = b.Select(b.Gt(size, 0.0), head / b.Cast(b.Select(b.Gt(size, 0.0), size, 1.0), head.dtype()), 1.0);
  Value norm = b.Sqrt(norm2);
  Value at = b.Eq(Places(b, v.dim(1)), place);
  Value u = b.Select(at, phase * b.Cast(size + norm, v.dtype()), v);
  Value length2 = 2.0 * (norm2 + size * norm);  // |u|^2
  Value factor = b.Cast(b.Select(b.Gt(length2, 0.0), 2.0 / b.Select(b.Gt(length2, 0.0), length2, 1.0), 0.0), v.dtype());
  Value left = b.Conj(Times(b, ConjTranspose(b, a.h), u)) * factor;  // u^H H
  Value h = a.h - b.Unsqueeze(u, 2) * b.Unsqueeze(left, 1);
  h = h - Outer(b, Times(b, h, u) * factor, u);
  return {h, a.z - Outer(b, Times(b, a.z, u) * factor, u)};
}

// Zeros below the subdiagonal in column `place`, where rounding has left something.
Value ClearBelow(Builder& b, Value h, Value place) {
  Value places = Places(b, h.dim(1));
  Value column = b.Unsqueeze(b.Eq(places, place), 1), below = b.Unsqueeze(b.Gt(places, place + 1.0), 2);
  return b.Select(b.And(column, below), 0.0, h);
}

Similar Hessenberg(Builder& b, Value x) {
  int64_t n = x.dim(1);
  Similar start{x, b.BroadcastTo(Eye(b, n, n, x.dtype()), x.dims())};
  if (n <= 2) return start;
  std::vector<Value> state = b.While(
      std::vector<Value>{b.ConstInt(0, DType::kI32), start.h, start.z},
      [&](Builder&, std::span<const Value> s) { return b.Lt(s[0], static_cast<double>(n - 2)); },
      [&](Builder&, std::span<const Value> s) {
        Value k = b.BroadcastTo(s[0], Ints{x.dim(0), 1});
        Value v = b.Select(b.Gt(Places(b, n), k), PickColumn(b, s[1], k), 0.0);
        Similar next = Reflect(b, {s[1], s[2]}, v, k + 1.0);
        return std::vector<Value>{s[0] + 1.0, ClearBelow(b, next.h, k), next.z};
      });
  return {state[1], state[2]};
}

// The diagonals next to and on the main one: above[i] = H[i - 1, i], below[i] = H[i, i - 1].
struct Bands {
  Value above, main, below;
};

Bands BandsOf(Builder& b, Value h) {
  int64_t n = h.dim(1);
  Value places = Places(b, n), rows = b.Unsqueeze(places, 2), columns = b.Unsqueeze(places, 1);
  auto take = [&](Value mask, int64_t dim) { return b.Sum(b.Select(mask, h, 0.0), Ints{dim}, false); };
  return {take(b.Eq(rows, columns - 1.0), 1), take(b.Eq(rows, columns), 1), take(b.Eq(rows, columns + 1.0), 2)};
}

// The first column, up to a factor, of the shifted matrix at row `top` of the window that ends at row `end`.
// Every tenth round takes a shift from elsewhere, against cycles.
Value StartReal(Builder& b, const Bands& bands, Value top, Value end, Value exceptional) {
  auto pick = [&](Value band, Value place) { return Pick(b, band, place); };
  Value before = end - 1.0;
  Value h11 = pick(bands.main, before), h12 = pick(bands.above, end), h21 = pick(bands.below, end);
  Value h22 = pick(bands.main, end), size = b.Abs(h21) + b.Abs(pick(bands.below, before));
  h11 = b.Select(exceptional, 0.75 * size + h22, h11), h22 = b.Select(exceptional, h11, h22);
  h12 = b.Select(exceptional, -0.4375 * size, h12), h21 = b.Select(exceptional, size, h21);
  Value scale = b.Abs(h11) + b.Abs(h12) + b.Abs(h21) + b.Abs(h22);
  scale = b.Select(b.Gt(scale, 0.0), scale, 1.0);
  h11 = h11 / scale, h12 = h12 / scale, h21 = h21 / scale, h22 = h22 / scale;
  Value mean = (h11 + h22) * 0.5, det = (h11 - mean) * (h22 - mean) - h12 * h21;
  Value root = b.Sqrt(b.Abs(det)), pair = b.Ge(det, 0.0);
  // Of two real shifts the one closer to the corner, twice.
  Value closer = b.Le(b.Abs(mean + root - h22), b.Abs(mean - root - h22));
  Value re = b.Select(pair, mean, b.Select(closer, mean + root, mean - root)) * scale;
  Value im = b.Select(pair, root, 0.0) * scale;
  Value next = top + 1.0;
  Value m = pick(bands.main, top), link = pick(bands.below, next);
  Value s = b.Abs(m - re) + b.Abs(im) + b.Abs(link);
  s = b.Select(b.Gt(s, 0.0), s, 1.0);
  Value ratio = link / s;
  Value v1 = ratio * pick(bands.above, next) + (m - re) * ((m - re) / s) + im * (im / s);
  Value v2 = ratio * (m + pick(bands.main, next) - 2.0 * re), v3 = ratio * pick(bands.below, top + 2.0);
  Value sum = b.Abs(v1) + b.Abs(v2) + b.Abs(v3);
  sum = b.Select(b.Gt(sum, 0.0), sum, 1.0);
  Value places = Places(b, bands.main.dim(1));
  return b.Select(
      b.Eq(places, top), v1 / sum,
      b.Select(b.Eq(places, next), v2 / sum, b.Select(b.Eq(places, top + 2.0), v3 / sum, b.ZerosLike(bands.main))));
}

Value StartComplex(Builder& b, const Bands& bands, Value top, Value end, Value exceptional) {
  auto pick = [&](Value band, Value place) { return Pick(b, band, place); };
  DType dtype = bands.main.dtype();
  Value corner = pick(bands.main, end), link = pick(bands.below, end);
  Value u = b.Sqrt(pick(bands.above, end)) * b.Sqrt(link), s = SizeOf(b, u);
  Value x = 0.5 * (pick(bands.main, end - 1.0) - corner), sx = SizeOf(b, x);
  Value scale = b.Max(s, sx);
  scale = b.Cast(b.Select(b.Gt(scale, 0.0), scale, 1.0), dtype);
  Value xs = x / scale, us = u / scale, y = scale * b.Sqrt(xs * xs + us * us);
  Value away = b.Lt(b.Real(x) * b.Real(y) + b.Imag(x) * b.Imag(y), 0.0);
  Value sum = x + b.Select(away, -y, y), any = b.Gt(s, 0.0);
  Value shift = b.Select(any, corner - u * (u / b.Select(any, sum, 1.0)), corner);
  shift = b.Select(exceptional, corner + b.Cast(0.75 * b.Abs(b.Real(link)), dtype), shift);
  Value v1 = pick(bands.main, top) - shift, v2 = pick(bands.below, top + 1.0);
  Value places = Places(b, bands.main.dim(1));
  return b.Select(b.Eq(places, top), v1, b.Select(b.Eq(places, top + 1.0), v2, b.ZerosLike(bands.main)));
}

// A triangular T with A = Z T Z^H; of a real matrix, with blocks of two on the diagonal for pairs of eigenvalues.
struct SchurForm {
  Similar a;
  Value converged;  // bool[batch, 1]
};

SchurForm Schur(Builder& b, Value x) {
  constexpr int64_t kRounds = 30, kExceptional = 10;
  int64_t batch = x.dim(0), n = x.dim(1);
  DType dtype = x.dtype();
  bool complex = IsComplex(dtype);
  Similar start = Hessenberg(b, x);
  if (n == 1 || (n == 2 && !complex)) return {start, b.Full(Ints{batch, 1}, 1.0, DType::kBool)};
  Value places = Places(b, n);
  auto all = [&](double value) { return b.Full(Ints{batch, 1}, value, DType::kI32); };
  // State: steps; H; Z; the window's last row, -1 when all is done; the row of the next reflection, -1 before a sweep;
  // sweeps since an eigenvalue was found.
  double most = static_cast<double>(kRounds * std::max<int64_t>(n, 10) * n);
  std::vector<Value> state = b.While(
      std::vector<Value>{b.ConstInt(0, DType::kI32), start.h, start.z, all(static_cast<double>(n - 1)), all(-1),
                         all(0)},
      [&](Builder&, std::span<const Value> s) {
        Value left = b.Reshape(b.Max(s[3], Ints{}), Ints{});
        return b.And(b.Lt(s[0], most), b.Ge(left, 0.0));
      },
      [&](Builder&, std::span<const Value> s) {
        Value h = s[1], end = s[3], row = s[4], rounds = s[5];
        Bands bands = BandsOf(b, h);
        Value sizes = SizeOf(b, bands.main);
        Value negligible = Epsilon(dtype) * (sizes + Before(b, sizes));
        Value link = SizeOf(b, bands.below);
        Value small = b.Or(b.Le(link, negligible), b.Lt(link, Tiny(dtype) * static_cast<double>(n) / Epsilon(dtype)));
        Value between = b.And(b.Lt(row, 0.0), b.Ge(end, 0.0));
        // The window starts at the last row whose link to the one before it is negligible.
        Value top = b.Max(b.Select(b.And(b.And(small, b.Gt(places, 0.0)), b.Le(places, end)), places, 0.0), Ints{1});
        Value cut = b.And(
            b.And(b.Unsqueeze(b.And(small, between), 2), b.Eq(b.Unsqueeze(places, 2), b.Unsqueeze(places, 1) + 1.0)),
            b.Le(b.Unsqueeze(places, 2), b.Unsqueeze(end, 2)));
        h = b.Select(cut, 0.0, h);
        Value found = b.And(between, b.Ge(top, complex ? end : end - 1.0));
        Value starts = b.And(between, b.Not(found));
        Value exceptional = b.And(b.Gt(rounds, 0.0), b.Eq(b.Rem(rounds, b.ConstInt(kExceptional, DType::kI32)), 0.0));
        Value first =
            complex ? StartComplex(b, bands, top, end, exceptional) : StartReal(b, bands, top, end, exceptional);
        Value k = b.Select(starts, top, row);
        Value chased = b.And(b.Ge(places, k), b.Le(places, k + (complex ? 1.0 : 2.0)));
        Value v = b.Select(starts, first, b.Select(chased, PickColumn(b, h, k - 1.0), 0.0));
        Value acts = b.And(b.Ge(k, 0.0), b.Not(found));
        Similar next = Reflect(b, {h, s[2]}, b.Select(acts, v, 0.0), k);
        next.h = b.Select(b.Unsqueeze(b.And(acts, b.Not(starts)), 2), ClearBelow(b, next.h, k - 1.0), next.h);
        Value swept = b.And(acts, b.Ge(k + 1.0, end));
        Value next_row = b.Select(acts, b.Select(swept, -1.0, k + 1.0), row);
        Value next_rounds = b.Select(found, 0.0, b.Select(swept, rounds + 1.0, rounds));
        return std::vector<Value>{s[0] + 1.0, next.h, next.z, b.Select(found, top - 1.0, end), next_row, next_rounds};
      });
  return {{state[1], state[2]}, b.Lt(state[3], 0.0)};
}

struct Triangular {
  Value values, t, z;  // complex: [batch, n], [batch, n, n] twice
};

// Takes the blocks of two on a real matrix's diagonal apart. Of a complex pair the one above the real axis comes first.
Triangular TakeApart(Builder& b, Similar a) {
  int64_t n = a.h.dim(1);
  DType dtype = ComplexOf(a.h.dtype());
  Bands bands = BandsOf(b, a.h);
  // At the block's first row: [[p, q], [r, s]].
  Value p = bands.main, q = After(b, bands.above), r = After(b, bands.below), s = After(b, bands.main);
  Value starts = b.Ne(r, 0.0), ends = b.Ne(bands.below, 0.0);
  Value half = 0.5 * (p - s), scale = b.Max(b.Abs(half), b.Max(b.Abs(q), b.Abs(r)));
  scale = b.Select(b.Gt(scale, 0.0), scale, 1.0);
  Value square = (half / scale) * (half / scale) + (q / scale) * (r / scale);
  Value root = scale * b.Sqrt(b.Abs(square)), pair = b.Lt(square, 0.0);
  Value mean = s + half;
  // Real ones: the first is the one farther from s, the other follows from the product without cancellation.
  Value far = half + b.Select(b.Ge(half, 0.0), root, -root);
  Value other = s - b.Select(b.Ne(far, 0.0), q * (r / b.Select(b.Ne(far, 0.0), far, 1.0)), 0.0);
  Value zero = b.ZerosLike(p);
  Value re1 = b.Select(starts, b.Select(pair, mean, s + far), p), im1 = b.Select(b.And(starts, pair), root, zero);
  Value re2 = b.Select(pair, mean, other);
  Value re = b.Select(ends, Before(b, re2), re1), im = b.Select(ends, -Before(b, im1), im1);
  // G turns the first column of each block into the first eigenvector, [lambda - s, r].
  Value x1 = b.Complex(b.Select(pair, half, far), im1), x2 = b.Complex(r, zero);
  Value length = b.Sqrt(b.Real(x1 * b.Conj(x1)) + r * r);
  Value unit = b.Cast(b.Select(starts, length, 1.0), dtype);
  x1 = b.Select(starts, x1 / unit, 1.0), x2 = b.Select(starts, x2 / unit, 0.0);
  Value places = Places(b, n), rows = b.Unsqueeze(places, 2), columns = b.Unsqueeze(places, 1);
  Value on = b.Select(ends, b.Conj(Before(b, x1)), x1);
  Value g = b.Select(b.Eq(rows, columns), b.Unsqueeze(on, 1), 0.0) +
            b.Select(b.Eq(rows, columns + 1.0), b.Unsqueeze(x2, 1), 0.0) -
            b.Select(b.Eq(rows, columns - 1.0), b.Unsqueeze(b.Conj(x2), 2), 0.0);
  Value t = b.MatMul(ConjTranspose(b, g), b.MatMul(b.Cast(a.h, dtype), g));
  return {b.Complex(re, im), t, b.MatMul(b.Cast(a.z, dtype), g)};
}

// Eigenvectors of length one, in columns; the largest element of each is real and positive.
Value Vectors(Builder& b, const Triangular& a) {
  int64_t batch = a.t.dim(0), n = a.t.dim(1);
  DType dtype = a.t.dtype();
  Value above = Triu(b, a.t, 1), values = b.Unsqueeze(a.values, 1), zero = b.ConstInt(0, DType::kI32);
  Value least = Epsilon(dtype) * b.Max(b.Max(b.Abs(a.t), Ints{1, 2}), Tiny(dtype) / Epsilon(dtype));
  Value rows = b.Iota(Ints{1, n, 1}, 1, DType::kI32), columns = b.Iota(Ints{1, 1, n}, 2, DType::kI32);
  // (T - lambda) x = 0 with x zero below the diagonal, from the last row up, for all columns at once.
  std::vector<Value> state = b.While(
      std::vector<Value>{b.ConstInt(n - 1, DType::kI32), b.BroadcastTo(Eye(b, n, n, dtype), a.t.dims())},
      [&](Builder&, std::span<const Value> s) { return b.Ge(s[0], 0.0); },
      [&](Builder&, std::span<const Value> s) {
        std::vector<Value> at = {zero, s[0], zero};
        Value sum = b.MatMul(b.DynamicSlice(above, at, Ints{batch, 1, n}), s[1]);
        Value corner = b.DynamicSlice(b.Reshape(a.values, Ints{batch, n, 1}), at, Ints{batch, 1, 1});
        Value difference = corner - values;
        difference = b.Select(b.Gt(b.Abs(difference), least), difference, b.Cast(least, dtype));
        Value x = b.Select(b.And(b.Eq(rows, s[0]), b.Gt(columns, s[0])), -sum / difference, s[1]);
        Value largest = b.Max(b.Max(b.Abs(x), Ints{1}), 1.0);
        return std::vector<Value>{s[0] - 1.0, x / b.Cast(largest, dtype)};
      });
  Value v = b.MatMul(a.z, state[1]);
  v = v / b.Cast(b.Sqrt(b.Sum(b.Real(v * b.Conj(v)), 1)), dtype);
  Value size = b.Abs(v), largest = b.TakeAlong(v, 1, b.ArgMax(size, 1).second);
  return v * (b.Conj(largest) / b.Cast(b.Abs(largest), dtype));
}

struct Eigen {
  Value values, vectors;
};

// NaN where the matrix is not finite or the iteration did not converge; LAPACK, on the host, raises.
Eigen Solve(Builder& b, Value a, bool want_vectors) {
  Ints lead = StackDims(a);
  DType dtype = IsComplex(a.dtype()) ? a.dtype() : ComplexOf(a.dtype());
  int64_t n = a.dim(-1);
  if (a.numel() == 0) return {b.Full(Join(lead, Ints{n}), 0.0, dtype), b.Cast(a, dtype)};
  Value x = ToStack(b, a);
  Value largest = b.Max(b.Abs(x), Ints{1, 2}), finite = b.IsFinite(largest);
  Value scale = b.Select(b.And(finite, b.Gt(largest, 0.0)), largest, 1.0);
  auto [schur, converged] = Schur(b, b.Select(finite, x / b.Cast(scale, a.dtype()), 0.0));
  Triangular t =
      IsComplex(a.dtype()) ? Triangular{Diagonal(b, schur.h), Triu(b, schur.h), schur.z} : TakeApart(b, schur);
  Value valid = b.And(finite, b.Unsqueeze(converged, 2));
  double nan = std::numeric_limits<double>::quiet_NaN();
  Value factor = b.Select(b.Squeeze(valid, 2), b.Squeeze(scale, 2), nan);
  Value values = FromStack(b, t.values * b.Cast(factor, dtype), lead);
  if (!want_vectors) return {values, {}};
  Value v = Vectors(b, t);
  if (!IsComplex(a.dtype())) {  // a real eigenvalue's vector is real
    Value real = b.Unsqueeze(b.Eq(b.Imag(t.values), 0.0), 1);
    v = b.Complex(b.Real(v), b.Select(real, 0.0, b.Imag(v)));
  }
  return {values, FromStack(b, b.Select(valid, v, nan), lead)};
}

std::pair<Value, Value> Eig(Builder& b, Value a) {
  Eigen eigen = Solve(b, a, true);
  return {eigen.values, eigen.vectors};
}
LOWER("linalg_eig", Eig);
Value EigVals(Builder& b, Value a) { return Solve(b, a, false).values; }
LOWER("_linalg_eigvals", EigVals);
LOWER("linalg_eigvals", EigVals);  // for its out= form

}  // namespace
}  // namespace tpu::lowering
