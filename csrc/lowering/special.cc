// Gamma, zeta, and what comes from the error function.

#include <cmath>

#include "lowering/elementwise.h"

namespace tpu::lowering {
namespace {

// -x log x; -inf below 0.
Value Entr(Builder& b, Value x) {
  Value y = b.Select(b.Gt(x, 0.0), -x * b.Log(x), b.Select(b.Eq(x, 0.0), b.ZerosLike(x), -kInf));
  return b.Select(b.IsNan(x), x, y);
}

// W. J. Cody, Rational Chebyshev approximations for the error function, Math. Comp. 23, 1969.
constexpr double kCodyC[] = {2.15311535474403846343e-8, 5.64188496988670089180e-1, 8.88314979438837594118e0,
                             6.61191906371416294775e1,  2.98635138197400131132e2,  8.81952221241769090411e2,
                             1.71204761263407058314e3,  2.05107837782607146532e3,  1.23033935479799725272e3};
constexpr double kCodyD[] = {1.0,
                             1.57449261107098347253e1,
                             1.17693950891312499305e2,
                             5.37181101862009857509e2,
                             1.62138957456669018874e3,
                             3.29079923573345962678e3,
                             4.36261909014324715820e3,
                             3.43936767414372163696e3,
                             1.23033935480374942043e3};
constexpr double kCodyP[] = {1.63153871373020978498e-2, 3.05326634961232344035e-1, 3.60344899949804439429e-1,
                             1.25781726111229246204e-1, 1.60837851487422766278e-2, 6.58749161529837803157e-4};
constexpr double kCodyQ[] = {1.0,
                             2.56852019228982242072e0,
                             1.87295284992346047209e0,
                             5.27905102951428412248e-1,
                             6.05183413124413191178e-2,
                             2.33520497626869185443e-3};
constexpr double kInvSqrtPi = 0.56418958354775628695;

// e^(x^2) erfc(x), without the overflow; erfcx(-x) = 2 e^(x^2) - erfcx(x).
Value Erfcx(Builder& b, Value x) {
  Value ax = b.Abs(x);
  Value square = b.Exp(x * x);
  Value tiny = square * b.Chlo("erfc", {ax});
  Value middle = Horner(b, ax, kCodyC) / Horner(b, ax, kCodyD);
  Value z = 1.0 / (ax * ax);
  Value large = (kInvSqrtPi - z * Horner(b, z, kCodyP) / Horner(b, z, kCodyQ)) / ax;
  Value y = b.Select(b.Le(ax, 0.46875), tiny, b.Select(b.Le(ax, 4.0), middle, large));
  return b.Select(b.Lt(x, 0.0), 2.0 * square - y, y);
}

// log Phi(x).
Value LogNdtr(Builder& b, Value x) {
  Value t = x * (1.0 / kSqrt2);
  Value left = b.Log(Erfcx(b, b.Neg(b.Min(t, 0.0))) / 2.0) - t * t;
  return b.Select(b.Lt(x, -1.0), left, b.Log1p(b.Chlo("erfc", {t}) * -0.5));
}

// Cephes' ndtri, highest power first.
constexpr double kNdtriP0[] = {-5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1,
                               1.39312609387279679503e1, -1.23916583867381258016e0};
constexpr double kNdtriQ0[] = {1.0,
                               1.95448858338141759834e0,
                               4.67627912898881538453e0,
                               8.63602421390890590575e1,
                               -2.25462687854119370527e2,
                               2.00260212380060660359e2,
                               -8.20372256168333339912e1,
                               1.59056225126211695515e1,
                               -1.18331621121330003142e0};
constexpr double kNdtriP1[] = {4.05544892305962419923e0,   3.15251094599893866154e1,   5.71628192246421288162e1,
                               4.40805073893200834700e1,   1.46849561928858024014e1,   2.18663306850790267539e0,
                               -1.40256079171354495875e-1, -3.50424626827848203418e-2, -8.57456785154685413611e-4};
constexpr double kNdtriQ1[] = {1.0,
                               1.57799883256466749731e1,
                               4.53907635128879210584e1,
                               4.13172038254672030440e1,
                               1.50425385692907503408e1,
                               2.50464946208309415979e0,
                               -1.42182922854787788574e-1,
                               -3.80806407691578277194e-2,
                               -9.33259480895457427372e-4};
constexpr double kNdtriP2[] = {3.23774891776946035970e0,  6.91522889068984211695e0,  3.93881025292474443415e0,
                               1.33303460815807542389e0,  2.01485389549179081538e-1, 1.23716634817820021358e-2,
                               3.01581553508235416007e-4, 2.65806974686737550832e-6, 6.23974539184983293730e-9};
constexpr double kNdtriQ2[] = {1.0,
                               6.02427039364742014255e0,
                               3.67983563856160859403e0,
                               1.37702099489081330271e0,
                               2.16236993594496635890e-1,
                               1.34204006088543189037e-2,
                               3.28014464682127739104e-4,
                               2.89247864745380683936e-6,
                               6.79019408009981274425e-9};
constexpr double kExpMinus2 = 0.13533528323661269189;
constexpr double kSqrt2Pi = 2.50662827463100050242;

// The inverse of the normal distribution function.
Value Ndtri(Builder& b, Value p) {
  Value upper = b.Gt(p, 1.0 - kExpMinus2);
  Value y = b.Select(upper, 1.0 - p, p);
  Value centered = y - 0.5, c2 = centered * centered;
  Value middle = centered + centered * (c2 * Horner(b, c2, kNdtriP0) / Horner(b, c2, kNdtriQ0));
  Value x = b.Sqrt(b.Log(y) * -2.0);
  Value z = 1.0 / x;
  Value correction = b.Select(b.Lt(x, 8.0), z * Horner(b, z, kNdtriP1) / Horner(b, z, kNdtriQ1),
                              z * Horner(b, z, kNdtriP2) / Horner(b, z, kNdtriQ2));
  Value tail = x - b.Log(x) / x - correction;
  Value r = b.Select(b.Gt(y, kExpMinus2), middle * kSqrt2Pi, b.Select(upper, tail, -tail));
  r = b.Select(b.Eq(p, 0.0), -kInf, b.Select(b.Eq(p, 1.0), kInf, r));
  return b.Select(b.Or(b.Lt(p, 0.0), b.Gt(p, 1.0)), kNan, r);
}

// -inf at 0 and inf at -0, where XLA has NaN.
Value Digamma(Builder& b, Value x) {
  Value pole = CopySign(b, b.Full(x.dims(), kInf, x.dtype()), -x);
  return b.Select(b.Eq(x, 0.0), pole, b.Chlo("digamma", {x}));
}

// The derivative of digamma: reflection below 1/2, six steps up, then the asymptotic series.
Value Trigamma(Builder& b, Value x) {
  Value reflected = b.Lt(x, 0.5);
  Value sine = b.Sin(x * kPi);
  Value offset = b.Select(reflected, -(kPi * kPi) / (sine * sine), 0.0);
  Value y = b.Select(reflected, 1.0 - x, x);
  Value sum = offset;
  for (int i = 0; i < 6; ++i) {
    sum = sum + 1.0 / (y * y);
    y = y + 1.0;
  }
  Value r = 1.0 / (y * y);
  sum = sum + (1.0 + 0.5 / y + r * (1.0 / 6.0 - r * (1.0 / 30.0 - r * (1.0 / 42.0)))) / y;
  return b.Select(reflected, -sum, sum);
}

// Hurwitz' zeta by Euler and Maclaurin (Cephes): terms until the argument is above 9, then (2k)! / B_2k corrections.
Value Zeta(Builder& b, Value x, Value q) {
  constexpr double kCorrections[] = {12.0,
                                     -720.0,
                                     30240.0,
                                     -1209600.0,
                                     47900160.0,
                                     -1.8924375803183791606e9,
                                     7.47242496e10,
                                     -2.950130727918164224e12,
                                     1.1646782814350067249e14,
                                     -4.5979787224074726105e15,
                                     1.8152105401943546773e17,
                                     -7.1661652561756670113e18};
  const double eps = Epsilon(x.dtype()) / 2.0;
  Value pole = b.And(b.Le(q, 0.0), b.Eq(q, b.Floor(q)));
  Value undefined = b.And(b.Le(q, 0.0), b.Ne(x, b.Floor(x)));
  Value a = b.Select(pole, 1.0, q);
  Value term = b.Pow(a, -x), sum = term;
  for (int i = 0; i < 9; ++i) {
    a = a + 1.0;
    term = b.Pow(a, -x);
    sum = sum + term;
  }
  auto low = [](Builder& b, std::span<const Value> v) { return b.Le(v[0], 9.0); };
  std::vector<Value> state = b.While(
      std::vector<Value>{a, term, sum, x}, [low](Builder& b, std::span<const Value> v) { return AnyOf(b, low(b, v)); },
      [low](Builder& b, std::span<const Value> v) {
        Value on = low(b, v);
        Value a = v[0] + 1.0;
        Value term = b.Pow(a, -v[3]);
        Value sum = b.Select(on, v[2] + term, v[2]);
        return std::vector<Value>{b.Select(on, a, v[0]), b.Select(on, term, v[1]), sum, v[3]};
      });
  Value w = state[0];
  term = state[1];
  sum = state[2];
  Value done = b.Lt(b.Abs(term), b.Abs(sum) * eps);
  sum = b.Select(done, sum, sum + term * w / (x - 1.0) - term * 0.5);
  Value factor = b.Full(x.dims(), 1.0, x.dtype());
  double k = 0.0;
  for (double correction : kCorrections) {
    factor = factor * (x + k);
    term = term / w;
    Value t = factor * term / correction;
    sum = b.Select(done, sum, sum + t);
    done = b.Or(done, b.Lt(b.Abs(t / sum), eps));
    factor = factor * (x + (k + 1.0));
    term = term / w;
    k += 2.0;
  }
  Value y = b.Select(pole, kInf, b.Select(undefined, kNan, sum));
  return b.Select(b.Eq(x, 1.0), kInf, b.Select(b.Lt(x, 1.0), kNan, y));
}

Value Polygamma(Builder& b, int64_t n, Value x) {
  if (n == 0) return Digamma(b, x);
  if (n == 1) return Trigamma(b, x);
  double order = static_cast<double>(n);
  double factor = std::tgamma(order + 1.0) * (n % 2 ? 1.0 : -1.0);
  return Zeta(b, b.Full(x.dims(), order + 1.0, x.dtype()), x) * factor;
}

// log of the multivariate gamma function.
Value Mvlgamma(Builder& b, Value x, int64_t p) {
  double dims = static_cast<double>(p);
  Value sum = b.Full(x.dims(), dims * (dims - 1.0) / 4.0 * std::log(kPi), x.dtype());
  for (int64_t j = 0; j < p; ++j) sum = sum + b.Chlo("lgamma", {x - 0.5 * static_cast<double>(j)});
  return sum;
}

// Both incomplete gamma functions are summed in float64, which spares the asymptotic expansions near a = x.
struct IncompleteGamma {
  Value lower, upper;  // regularized: P and Q
};
constexpr int64_t kMostIterations = 2000;

IncompleteGamma RegularizedGamma(Builder& b, Value a, Value x) {
  Value i0 = b.ConstInt(0);
  Value prefactor = b.Exp(a * b.Log(x) - x - b.Chlo("lgamma", {a}));  // x^a e^-x / Gamma(a)
  Value one = b.Full(x.dims(), 1.0, x.dtype());
  Value by_fraction = b.And(b.Gt(x, 1.0), b.Gt(x, a));
  const double eps = Epsilon(x.dtype()) / 2.0;

  // P = prefactor / a * sum of x^n / ((a + 1) ... (a + n)) (DLMF 8.11.4).
  auto series_on = [eps](Builder& b, std::span<const Value> v) { return b.Gt(v[2], b.Abs(v[3]) * eps); };
  Value series_x = b.Select(by_fraction, b.ZerosLike(x), x);
  std::vector<Value> series = b.While(
      std::vector<Value>{i0, a, one, one, series_x},
      [series_on](Builder& b, std::span<const Value> v) {
        return b.And(b.Lt(v[0], b.ConstInt(kMostIterations)), AnyOf(b, series_on(b, v)));
      },
      [](Builder& b, std::span<const Value> v) {
        Value r = v[1] + 1.0;
        Value term = v[2] * (v[4] / r);
        return std::vector<Value>{b.Add(v[0], b.ConstInt(1)), r, term, v[3] + term, v[4]};
      });
  Value p = prefactor / a * series[3];

  // Q = prefactor times a continued fraction (DLMF 8.9.2), by Lentz' method.
  const double tiny = 1e-300;
  Value fraction_x = b.Select(by_fraction, x, b.Full(x.dims(), 2.0, x.dtype()));
  Value fraction_a = b.Select(by_fraction, a, one);
  Value b0 = fraction_x + 1.0 - fraction_a;
  Value d0 = 1.0 / b0;
  std::vector<Value> fraction = b.While(
      std::vector<Value>{b.ConstInt(1), b0, one / tiny, d0, d0, fraction_a, b.Full(x.dims(), 0.0, x.dtype())},
      [eps](Builder& b, std::span<const Value> v) {
        Value moving = AnyOf(b, b.Gt(b.Abs(v[6] - 1.0), 2.0 * eps));
        return b.And(b.Lt(v[0], b.ConstInt(kMostIterations)), moving);
      },
      [](Builder& b, std::span<const Value> v) {
        Value i = b.Cast(v[0], v[1].dtype());
        Value an = i * (v[5] - i);
        Value bn = v[1] + 2.0;
        auto away_from_zero = [&](Value y) { return b.Select(b.Lt(b.Abs(y), 1e-300), 1e-300, y); };
        Value d = 1.0 / away_from_zero(an * v[3] + bn);
        Value c = away_from_zero(bn + an / v[2]);
        Value delta = d * c;
        return std::vector<Value>{b.Add(v[0], b.ConstInt(1)), bn, c, d, v[4] * delta, v[5], delta};
      });
  Value q = prefactor * fraction[4];

  IncompleteGamma r{b.Select(by_fraction, 1.0 - q, p), b.Select(by_fraction, q, 1.0 - p)};
  auto boundary = [&](Value condition, double lower) {
    r = {b.Select(condition, lower, r.lower), b.Select(condition, 1.0 - lower, r.upper)};
  };
  boundary(b.IsInf(x), 1.0);
  boundary(b.IsInf(a), 0.0);
  boundary(b.Eq(x, 0.0), 0.0);
  Value positive = b.Gt(x, 0.0), degenerate = b.Eq(a, 0.0);
  boundary(b.And(degenerate, positive), 1.0);
  Value infinite = b.And(b.IsInf(a), b.IsInf(x));
  Value outside = b.Or(b.Lt(a, 0.0), b.Lt(x, 0.0));
  boundary(b.Or(b.Or(infinite, outside), b.And(degenerate, b.Not(positive))), kNan);
  return r;
}

Value Igamma(Builder& b, Value a, Value x) {
  return RegularizedGamma(b, b.Cast(a, DType::kF64), b.Cast(x, DType::kF64)).lower;
}
Value Igammac(Builder& b, Value a, Value x) {
  return RegularizedGamma(b, b.Cast(a, DType::kF64), b.Cast(x, DType::kF64)).upper;
}

}  // namespace

LOWER("digamma", Digamma, kPointwise);
LOWER("igamma", Igamma, kPointwise);
LOWER("igammac", Igammac, kPointwise);
LOWER("mvlgamma", Mvlgamma, kPointwise);
LOWER("polygamma", Polygamma, kPointwise);
LOWER("special_entr", Entr, kPointwise);
LOWER("special_erfcx", Erfcx, kPointwise);
LOWER("special_log_ndtr", LogNdtr, kPointwise);
LOWER("special_ndtri", Ndtri, kPointwise);
LOWER("special_zeta", Zeta, kPointwise);
LOWER("special_zeta.self_scalar", Zeta, kPointwise);
LOWER("special_zeta.other_scalar", Zeta, kPointwise);

}  // namespace tpu::lowering
