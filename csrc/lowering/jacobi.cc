// Singular values, and eigenvalues of Hermitian matrices, by one-sided Jacobi rotations (Hestenes). XLA's own "Eigh"
// stops at the square root of the element type's precision.
#include <algorithm>
#include <limits>

#include "lowering/elementwise.h"
#include "lowering/matrix_stack.h"

namespace tpu::lowering {
namespace {

// Columns in pairs: top[i] meets bottom[i]. [batch, rows, half] each.
struct Pairs {
  Value top, bottom;
};

// The next round of the tournament: top[0] stays, all others move on by one place in a ring.
Pairs NextRound(Builder& b, Pairs p) {
  int64_t half = p.top.dim(2);
  if (half == 1) return p;
  auto part = [&](Value x, int64_t begin, int64_t end) { return b.SliceDim(x, 2, begin, end); };
  Value top = b.Concat(std::vector<Value>{part(p.top, 0, 1), part(p.bottom, 0, 1), part(p.top, 1, half - 1)}, 2);
  Value bottom = b.Concat(std::vector<Value>{part(p.bottom, 1, half), part(p.top, half - 1, half)}, 2);
  return {top, bottom};
}

Pairs Rotate(Builder& b, Pairs p, Value cosine, Value sine, Value phase) {
  Value turned = p.bottom * b.Conj(phase);
  Value c = b.Cast(cosine, p.top.dtype()), s = b.Cast(sine, p.top.dtype());
  return {c * p.top - s * turned, s * p.top + c * turned};
}

Value Norm2(Builder& b, Value x) { return b.Sum(b.Real(x * b.Conj(x)), 1); }

// {W, V} with W = X V, V unitary and W's columns orthogonal; X is [batch, n, n] with n even.
Pairs Orthogonalize(Builder& b, Value x) {
  constexpr int kMostSweeps = 30;
  int64_t n = x.dim(1), half = n / 2, rounds = n - 1;
  DType real = RealOf(x.dtype());
  double epsilon = Epsilon(real);
  Value v = b.BroadcastTo(Eye(b, n, n, x.dtype()), x.dims());
  auto split = [&](Value m) { return Pairs{b.SliceDim(m, 2, 0, half), b.SliceDim(m, 2, half, n)}; };
  Pairs w = split(x), u = split(v);
  Value zero = b.ConstInt(0, DType::kI32);
  // State: round, the largest cosine between columns in this sweep and in the last one, columns of W and of V.
  std::vector<Value> state = b.While(
      std::vector<Value>{zero, b.Const(0.0, real), b.Const(1.0, real), w.top, w.bottom, u.top, u.bottom},
      [&](Builder&, std::span<const Value> s) {
        return b.And(b.Lt(s[0], static_cast<double>(kMostSweeps * rounds)),
                     b.Gt(s[2], epsilon * static_cast<double>(n)));
      },
      [&](Builder&, std::span<const Value> s) {
        Pairs columns{s[3], s[4]}, basis{s[5], s[6]};
        Value alpha = Norm2(b, columns.top), beta = Norm2(b, columns.bottom);
        Value gamma = b.Sum(b.Conj(columns.top) * columns.bottom, 1);
        Value size = b.Abs(gamma), scale = b.Sqrt(alpha) * b.Sqrt(beta);
        Value acts = b.Gt(size, epsilon * 0.5 * scale);
        Value divisor = b.Select(acts, size, 1.0);
        Value phase = b.Select(acts, gamma / b.Cast(divisor, gamma.dtype()), 1.0);
        // The rotation that makes the pair orthogonal (Golub and Van Loan, 8.6.3).
        Value zeta = (beta - alpha) / (2.0 * divisor);
        Value tangent =
            b.Select(b.Ge(zeta, 0.0), 1.0, b.Full(zeta.dims(), -1.0, real)) / (b.Abs(zeta) + b.Sqrt(1.0 + zeta * zeta));
        tangent = b.Select(acts, tangent, 0.0);
        Value cosine = b.Rsqrt(1.0 + tangent * tangent), sine = cosine * tangent;
        Value angle = b.Select(acts, size / b.Select(acts, scale, 1.0), 0.0);
        Value largest = b.Max(s[1], b.Reshape(b.Max(angle, Ints{}), Ints{}));
        Pairs next = NextRound(b, Rotate(b, columns, cosine, sine, phase));
        Pairs next_basis = NextRound(b, Rotate(b, basis, cosine, sine, phase));
        Value round = s[0] + 1.0;
        Value swept = b.Eq(b.Rem(round, b.ConstInt(rounds, DType::kI32)), 0.0);
        return std::vector<Value>{round,
                                  b.Select(swept, 0.0, largest),
                                  b.Select(swept, largest, s[2]),
                                  next.top,
                                  next.bottom,
                                  next_basis.top,
                                  next_basis.bottom};
      });
  return {b.Concat(std::vector<Value>{state[3], state[4]}, 2), b.Concat(std::vector<Value>{state[5], state[6]}, 2)};
}

Value TakeColumns(Builder& b, Value x, Value order, int64_t count) {
  Ints dims = {x.dim(0), x.dim(1), count};
  return b.TakeAlong(x, 2, b.BroadcastInDim(b.SliceDim(order, 1, 0, count), dims, Ints{0, 2}));
}

// The columns of W and V in order; the column that made n even, which nothing was mixed into, last.
struct Sorted {
  Value key, w, v;  // [batch, n], [batch, n, n] twice
};

// By ascending or descending key [batch, even].
Sorted SortColumns(Builder& b, Pairs wv, Value key, int64_t n, bool descending) {
  int64_t batch = key.dim(0), even = key.dim(1);
  if (even != n) {
    Value extra = b.Reshape(b.Abs(b.SliceDim(wv.bottom, 1, n, even)), Ints{batch, even});
    double last = std::numeric_limits<double>::infinity();
    key = b.Select(b.Gt(extra, 0.5), descending ? -last : last, key);
  }
  std::vector<Value> sorted = b.Sort(std::vector<Value>{key, b.Iota(Ints{batch, even}, 1, DType::kI32)}, 1, true,
                                     [descending](Builder& builder, std::span<const Value> v) {
                                       return descending ? builder.Gt(v[0], v[1]) : builder.Lt(v[0], v[1]);
                                     });
  auto take = [&](Value x) { return b.SliceDim(TakeColumns(b, x, sorted[1], n), 1, 0, n); };
  return {b.SliceDim(sorted[0], 1, 0, n), take(wv.top), take(wv.bottom)};
}

// [batch, n, n] with a row and a column of zeros more where n is odd.
Value PadToEven(Builder& b, Value x) {
  int64_t more = x.dim(1) % 2;
  return more ? b.Pad(x, b.ConstLike(0, x), Ints{0, 0, 0}, Ints{0, more, more}) : x;
}

// The largest modulus in each matrix, so that squares neither overflow nor vanish: [batch, 1, 1].
Value ScaleOf(Builder& b, Value x) {
  Value scale = b.Max(b.Abs(x), Ints{1, 2});
  return b.Select(b.And(b.Gt(scale, 0.0), b.IsFinite(scale)), scale, 1.0);
}

struct Svd {
  Value u, s, v;  // [batch, m, k or m], [batch, k], [batch, n, n]
};

// m >= n >= 1; X = U S V^H.
Svd TallSvd(Builder& b, Value x, bool full) {
  int64_t batch = x.dim(0), m = x.dim(1), n = x.dim(2);
  DType dtype = x.dtype(), real = RealOf(dtype);
  Value scale = ScaleOf(b, x);
  auto [factors, tau] = Geqrf(b, x / b.Cast(scale, dtype));
  Value q = HouseholderProduct(b, factors, tau, full ? m : n);
  Pairs wv = Orthogonalize(b, PadToEven(b, Triu(b, b.SliceDim(factors, 1, 0, n))));
  Value norms = b.Squeeze(b.Sqrt(Norm2(b, wv.top)), 1);
  auto [key, w, v] = SortColumns(b, wv, norms, n, true);
  Value s = key * b.Reshape(scale, Ints{batch, 1});
  // W's columns are orthogonal, some perhaps zero: the Q of its QR, with R's phases, is W / s and completes it.
  auto [w_factors, w_tau] = Geqrf(b, w);
  Value diagonal = Diagonal(b, w_factors);
  Value size = b.Abs(diagonal);
  Value phase = b.Select(b.Eq(size, 0.0), 1.0, diagonal / b.Cast(b.Select(b.Eq(size, 0.0), 1.0, size), dtype));
  Value left = HouseholderProduct(b, w_factors, w_tau, n) * b.Unsqueeze(phase, 1);
  Value u = b.MatMul(b.SliceDim(q, 2, 0, n), left);
  if (full && m > n) u = b.Concat(std::vector<Value>{u, b.SliceDim(q, 2, n, m)}, 2);
  return {u, b.Cast(s, real), v};
}

// {U, S, V^H}
std::vector<Value> SingularValues(Builder& b, Value a, bool full_matrices, bool compute_uv,
                                  std::optional<std::string_view> /*driver*/) {
  int64_t m = a.dim(-2), n = a.dim(-1), k = std::min(m, n);
  Ints lead = StackDims(a);
  Value none = b.Full(Ints{0}, 0.0, a.dtype());
  if (a.numel() == 0) {
    auto eye = [&](int64_t rows, int64_t columns) {
      return b.BroadcastTo(Eye(b, rows, columns, a.dtype()), Join(lead, Ints{rows, columns}));
    };
    Value s = b.Full(Join(lead, Ints{k}), 0.0, RealOf(a.dtype()));
    if (!compute_uv) return {none, s, none};
    return {eye(m, full_matrices ? m : k), s, eye(full_matrices ? n : k, n)};
  }
  Value x = ToStack(b, a);
  bool wide = m < n;
  Svd svd = TallSvd(b, wide ? ConjTranspose(b, x) : x, full_matrices && compute_uv);
  Value s = FromStack(b, svd.s, lead);
  if (!compute_uv) return {none, s, none};
  return {FromStack(b, wide ? svd.v : svd.u, lead), s, FromStack(b, ConjTranspose(b, wide ? svd.u : svd.v), lead)};
}
LOWER("_linalg_svd", SingularValues);

// {eigenvalues in ascending order, eigenvectors in columns}; only the triangle `uplo` is read. A + |A| has no negative
// eigenvalues, so its singular vectors are A's eigenvectors; the eigenvalues are their Rayleigh quotients.
std::pair<Value, Value> Eigh(Builder& b, Value a, std::string_view uplo, bool compute_v) {
  int64_t n = a.dim(-1);
  Ints lead = StackDims(a);
  Value none = b.Full(Ints{0}, 0.0, a.dtype());
  if (a.numel() == 0) return {b.Full(Join(lead, Ints{n}), 0.0, RealOf(a.dtype())), compute_v ? a : none};
  Value x = ToStack(b, a), eye = Eye(b, n, n, a.dtype());
  Value triangle = uplo == "U" || uplo == "u" ? Triu(b, x, 1) : Tril(b, x, -1);
  // Only the real part of the diagonal counts.
  x = triangle + ConjTranspose(b, triangle) + b.Cast(b.Real(x), a.dtype()) * eye;
  Value scale = ScaleOf(b, x);
  x = x / b.Cast(scale, a.dtype());
  Value shift = b.Sqrt(b.Sum(b.Real(x * b.Conj(x)), Ints{1, 2}));  // the Frobenius norm
  Pairs wv = Orthogonalize(b, PadToEven(b, x + b.Cast(shift, a.dtype()) * eye));
  Value even = PadToEven(b, x);
  Value quotients = b.Squeeze(b.Sum(b.Real(b.Conj(wv.bottom) * b.MatMul(even, wv.bottom)), 1), 1);
  Sorted sorted = SortColumns(b, wv, quotients, n, false);
  Value values = FromStack(b, sorted.key * b.Reshape(scale, Ints{x.dim(0), 1}), lead);
  return {values, compute_v ? FromStack(b, sorted.v, lead) : none};
}
LOWER("_linalg_eigh", Eigh);

}  // namespace
}  // namespace tpu::lowering
