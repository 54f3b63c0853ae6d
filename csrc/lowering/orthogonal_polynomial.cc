// Orthogonal polynomials by their three-term recurrences; the degree is an operand, so the recurrence is a loop.

#include "lowering/elementwise.h"

namespace tpu::lowering {
namespace {

// One term after p_(k-1) and p_k.
using Step = Value (*)(Builder& b, Value k, Value x, Value previous, Value current);

// p_n(x) from p_0 = 1 and p_1 = first; each element stops at its own degree, or at NaN.
Value Recurrence(Builder& b, Value x, Value n, Value first, Step step) {
  Value one = b.Full(x.dims(), 1.0, x.dtype());
  std::vector<Value> state{b.Const(1.0, x.dtype()), one, first, x, n};
  auto active = [](Builder& b, std::span<const Value> v) { return b.And(b.Lt(v[0], v[4]), b.Not(b.IsNan(v[2]))); };
  state = b.While(
      state, [active](Builder& b, std::span<const Value> v) { return AnyOf(b, active(b, v)); },
      [active, step](Builder& b, std::span<const Value> v) {
        Value on = active(b, v);
        Value next = step(b, v[0], v[3], v[1], v[2]);
        return std::vector<Value>{v[0] + 1.0, b.Select(on, v[2], v[1]), b.Select(on, next, v[2]), v[3], v[4]};
      });
  return b.Select(b.Le(n, 0.0), b.Select(b.Lt(n, 0.0), 0.0, one), state[2]);
}

// (-1)^n.
Value Parity(Builder& b, Value n) {
  return b.Select(b.Eq(b.Rem(n, b.ConstLike(2.0, n)), 0.0), b.Full(n.dims(), 1.0, n.dtype()), -1.0);
}

// Either operand may be a scalar; the loop's arrays are of one shape. Degrees are whole numbers.
void Align(Builder& b, Value& x, Value& n) {
  Ints dims = hlo::BroadcastDims(x.dims(), n.dims());
  x = b.BroadcastTo(x, dims);
  n = b.Trunc(b.BroadcastTo(n, dims));
}

enum class Kind { kT, kU, kV, kW };

// With x = cos t: T cos(n t), U sin((n + 1) t) / sin t, V cos((n + 1/2) t) / cos(t / 2), W the same with sines,
// used for |x| < 1 above a degree that PyTorch sets for each; all obey p_(k+1) = 2 x p_k - p_(k-1).
template <Kind K, bool Shifted>
Value Chebyshev(Builder& b, Value x, Value n) {
  constexpr double kRecurrenceUpTo = K == Kind::kT ? 6.0 : !Shifted ? 8.0 : K == Kind::kW ? 4.0 : 6.0;
  Align(b, x, n);
  if (Shifted) x = x + x - 1.0;
  Value ax = b.Abs(x);
  Value t = b.Chlo("acos", {x});
  Value first, closed, at_one, at_minus_one;
  Value one = b.Full(x.dims(), 1.0, x.dtype()), sign = Parity(b, n);
  if (K == Kind::kT) {
    first = x;
    closed = b.Cos(n * t);
    at_one = one;
    at_minus_one = sign;
  } else if (K == Kind::kU) {
    first = x + x;
    closed = b.Sin((n + 1.0) * t) / b.Sin(t);
    at_one = n + 1.0;
    at_minus_one = sign * at_one;
  } else if (K == Kind::kV) {
    first = x + x - 1.0;
    closed = b.Cos((n + 0.5) * t) / b.Cos(t * 0.5);
    at_one = one;
    at_minus_one = sign * (n + n + 1.0);
  } else {
    first = x + x + 1.0;
    closed = b.Sin((n + 0.5) * t) / b.Sin(t * 0.5);
    at_one = n + n + 1.0;
    at_minus_one = sign;
  }
  Value edge = b.Eq(ax, 1.0);
  Value use_closed = b.And(b.Gt(n, kRecurrenceUpTo), b.Lt(ax, 1.0));
  Value looped = b.Select(b.Or(edge, use_closed), 0.0, n);
  Value y = Recurrence(b, x, looped, first, [](Builder&, Value, Value x, Value previous, Value current) {
    return (x + x) * current - previous;
  });
  y = b.Select(use_closed, closed, y);
  y = b.Select(edge, b.Select(b.Gt(x, 0.0), at_one, at_minus_one), y);
  return b.Select(b.Lt(n, 0.0), 0.0, y);
}

// PyTorch gives NaN above a degree that depends on the type.
Value HermiteLimited(Builder& b, Value n, Value y) {
  return b.Select(b.Gt(n, y.dtype() == DType::kF64 ? 512.0 : 128.0), kNan, y);
}
void AlignHermite(Builder& b, Value& x, Value& n) {
  Align(b, x, n);
  n = b.Select(b.IsFinite(n), b.Min(n, 1024.0), -1.0);
}

// H_(k+1) = 2 x H_k - 2 k H_(k-1).
Value HermiteH(Builder& b, Value x, Value n) {
  AlignHermite(b, x, n);
  Value y = Recurrence(b, x, n, x + x, [](Builder&, Value k, Value x, Value previous, Value current) {
    return (x + x) * current - (k + k) * previous;
  });
  return HermiteLimited(b, n, y);
}

// He_(k+1) = x He_k - k He_(k-1).
Value HermiteHe(Builder& b, Value x, Value n) {
  AlignHermite(b, x, n);
  Value y = Recurrence(
      b, x, n, x, [](Builder&, Value k, Value x, Value previous, Value current) { return x * current - k * previous; });
  return HermiteLimited(b, n, y);
}

// (k + 1) L_(k+1) = (2 k + 1 - x) L_k - k L_(k-1).
Value Laguerre(Builder& b, Value x, Value n) {
  Align(b, x, n);
  Value zero = b.And(b.Eq(x, 0.0), b.Ge(n, 0.0));
  Value looped = b.Select(zero, 0.0, n);
  return Recurrence(b, x, looped, 1.0 - x, [](Builder&, Value k, Value x, Value previous, Value current) {
    return (((k + k) + (1.0 - x)) * current - k * previous) / (k + 1.0);
  });
}

// (k + 1) P_(k+1) = (2 k + 1) x P_k - k P_(k-1).
Value Legendre(Builder& b, Value x, Value n) {
  Align(b, x, n);
  Value edge = b.And(b.Eq(b.Abs(x), 1.0), b.Ge(n, 0.0));
  Value looped = b.Select(edge, 0.0, n);
  Value y = Recurrence(b, x, looped, x, [](Builder&, Value k, Value x, Value previous, Value current) {
    return ((k + k + 1.0) * x * current - k * previous) / (k + 1.0);
  });
  return b.Select(b.And(edge, b.Lt(x, 0.0)), Parity(b, n), y);
}

// An operation's three overloads: degree or argument may be a scalar.
template <typename F>
bool RegisterOverloads(const std::string& name, F fn) {
  for (const char* overload : {"", ".n_scalar", ".x_scalar"}) {
    Register(internal::Make(name + overload, fn, kPointwise));
  }
  return true;
}

[[maybe_unused]] const bool registered =
    RegisterOverloads("special_chebyshev_polynomial_t", Chebyshev<Kind::kT, false>) &&
    RegisterOverloads("special_chebyshev_polynomial_u", Chebyshev<Kind::kU, false>) &&
    RegisterOverloads("special_chebyshev_polynomial_v", Chebyshev<Kind::kV, false>) &&
    RegisterOverloads("special_chebyshev_polynomial_w", Chebyshev<Kind::kW, false>) &&
    RegisterOverloads("special_shifted_chebyshev_polynomial_t", Chebyshev<Kind::kT, true>) &&
    RegisterOverloads("special_shifted_chebyshev_polynomial_u", Chebyshev<Kind::kU, true>) &&
    RegisterOverloads("special_shifted_chebyshev_polynomial_v", Chebyshev<Kind::kV, true>) &&
    RegisterOverloads("special_shifted_chebyshev_polynomial_w", Chebyshev<Kind::kW, true>) &&
    RegisterOverloads("special_hermite_polynomial_h", HermiteH) &&
    RegisterOverloads("special_hermite_polynomial_he", HermiteHe) &&
    RegisterOverloads("special_laguerre_polynomial_l", Laguerre) &&
    RegisterOverloads("special_legendre_polynomial_p", Legendre);

}  // namespace
}  // namespace tpu::lowering
