// Bessel functions of the first and second kind, and the Airy function.
//
// The coefficients are those of the Cephes library (S. L. Moshier, netlib.org/cephes), highest power first. PyTorch
// omits the implicit leading 1 of the monic denominators, and so do we.

#include "lowering/elementwise.h"

namespace tpu::lowering {
namespace {

constexpr double kPp0[] = {7.96936729297347051624e-04, 8.28352392107440799803e-02, 1.23953371646414299388e+00,
                           5.44725003058768775090e+00, 8.74716500199817011941e+00, 5.30324038235394892183e+00,
                           9.99999999999999997821e-01};
constexpr double kPq0[] = {9.24408810558863637013e-04, 8.56288474354474431428e-02, 1.25352743901058953537e+00,
                           5.47097740330417105182e+00, 8.76190883237069594232e+00, 5.30605288235394617618e+00,
                           1.00000000000000000218e+00};
constexpr double kQp0[] = {-1.13663838898469149931e-02, -1.28252718670509318512e+00, -1.95539544257735972385e+01,
                           -9.32060152123768231369e+01, -1.77681167980488050595e+02, -1.47077505154951170175e+02,
                           -5.14105326766599330220e+01, -6.05014350600728481186e+00};
constexpr double kQq0[] = {6.43178256118178023184e+01, 8.56430025976980587198e+02, 3.88240183605401609683e+03,
                           7.24046774195652478189e+03, 5.93072701187316984827e+03, 2.06209331660327847417e+03,
                           2.42005740240291393179e+02};
constexpr double kRp0[] = {-4.79443220978201773821e+09, 1.95617491946556577543e+12, -2.49248344360967716204e+14,
                           9.70862251047306323952e+15};
constexpr double kRq0[] = {4.99563147152651017219e+02, 1.73785401676374683123e+05, 4.84409658339962045305e+07,
                           1.11855537045356834862e+10, 2.11277520115489217587e+12, 3.10518229857422583814e+14,
                           3.18121955943204943306e+16, 1.71086294081043136091e+18};
constexpr double kPp1[] = {7.62125616208173112003e-04, 7.31397056940917570436e-02, 1.12719608129684925192e+00,
                           5.11207951146807644818e+00, 8.42404590141772420927e+00, 5.21451598682361504063e+00,
                           1.00000000000000000254e+00};
constexpr double kPq1[] = {5.71323128072548699714e-04, 6.88455908754495404082e-02, 1.10514232634061696926e+00,
                           5.07386386128601488557e+00, 8.39985554327604159757e+00, 5.20982848682361821619e+00,
                           9.99999999999999997461e-01};
constexpr double kQp1[] = {5.10862594750176621635e-02, 4.98213872951233449420e+00, 7.58238284132545283818e+01,
                           3.66779609360150777800e+02, 7.10856304998926107277e+02, 5.97489612400613639965e+02,
                           2.11688757100572135698e+02, 2.52070205858023719784e+01};
constexpr double kQq1[] = {7.42373277035675149943e+01, 1.05644886038262816351e+03, 4.98641058337653607651e+03,
                           9.56231892404756170795e+03, 7.99704160447350683650e+03, 2.82619278517639096600e+03,
                           3.36093607810698293419e+02};
constexpr double kRp1[] = {-8.99971225705559398224e+08, 4.52228297998194034323e+11, -7.27494245221818276015e+13,
                           3.68295732863852883286e+15};
constexpr double kRq1[] = {6.20836478118054335476e+02, 2.56987256757748830383e+05, 8.35146791431949253037e+07,
                           2.21511595479792499675e+10, 4.74914122079991414898e+12, 7.84369607876235854894e+14,
                           8.95222336184627338078e+16, 5.32278620332680085395e+18};
constexpr double kYp0[] = {1.55924367855235737965e+04,  -1.46639295903971606143e+07, 5.43526477051876500413e+09,
                           -9.82136065717911466409e+11, 8.75906394395366999549e+13,  -3.46628303384729719441e+15,
                           4.42733268572569800351e+16,  -1.84950800436986690637e+16};
constexpr double kYq0[] = {1.04128353664259848412e+03, 6.26107330137134956842e+05, 2.68919633393814121987e+08,
                           8.64002487103935000337e+10, 2.02979612750105546709e+13, 3.17157752842975028269e+15,
                           2.50596256172653059228e+17};
constexpr double kYp1[] = {1.26320474790178026440e+09,  -6.47355876379160291031e+11, 1.14509511541823727583e+14,
                           -8.12770255501325109621e+15, 2.02439475713594898196e+17,  -7.78877196265950026825e+17};
constexpr double kYq1[] = {5.94301592346128195359e+02, 2.35564092943068577943e+05, 7.34811944459721705660e+07,
                           1.87601316108706159478e+10, 3.88231277496238566008e+12, 6.20557727146953693363e+14,
                           6.87141087355300489866e+16, 3.97270608116560655612e+18};
constexpr double kAn[] = {3.46538101525629032477e-01, 1.20075952739645805542e+01, 7.62796053615234516538e+01,
                          1.68089224934630576269e+02, 1.59756391350164413639e+02, 7.05360906840444183113e+01,
                          1.40264691163389668864e+01, 9.99999999999999995305e-01};
constexpr double kAd[] = {5.67594532638770212846e-01, 1.47562562584847203173e+01, 8.45138970141474626562e+01,
                          1.77318088145400459522e+02, 1.64234692871529701831e+02, 7.14778400825575695274e+01,
                          1.40959135607834029598e+01, 1.00000000000000000470e+00};
constexpr double kAfn[] = {-1.31696323418331795333e-01, -6.26456544431912369773e-01, -6.93158036036933542233e-01,
                           -2.79779981545119124951e-01, -4.91900132609500318020e-02, -4.06265923594885404393e-03,
                           -1.59276496239262096340e-04, -2.77649108155232920844e-06, -1.67787698489114633780e-08};
constexpr double kAfd[] = {1.33560420706553243746e+01, 3.26825032795224613948e+01, 2.67367040941499554804e+01,
                           9.18707402907259625840e+00, 1.47529146771666414581e+00, 1.15687173795188044134e-01,
                           4.40291641615211203805e-03, 7.54720348287414296618e-05, 4.51850092970580378464e-07};
constexpr double kAgn[] = {1.97339932091685679179e-02, 3.91103029615688277255e-01, 1.06579897599595591108e+00,
                           9.39169229816650230044e-01, 3.51465656105547619242e-01, 6.33888919628925490927e-02,
                           5.85804113048388458567e-03, 2.82851600836737019778e-04, 6.98793669997260967291e-06,
                           8.11789239554389293311e-08, 3.41551784765923618484e-10};
constexpr double kAgd[] = {9.30892908077441974853e+00, 1.98352928718312140417e+01, 1.55646628932864612953e+01,
                           5.47686069422975497931e+00, 9.54293611618961883998e-01, 8.64580826352392193095e-02,
                           4.12656523824222607191e-03, 1.01259085116509135510e-04, 1.17166733214413521882e-06,
                           4.91834570062930015649e-09};

constexpr double kSqrtTwoOverPi = 0.797884560802865355879892119868763737;
constexpr double kTwoOverPi = 0.636619772367581343075535053490057448;
constexpr double kInvSqrtPi = 5.64189583547756286948e-01;

using Coefficients = std::span<const double>;

Value Ratio(Builder& b, Value z, Coefficients p, Coefficients q) { return Horner(b, z, p) / Horner(b, z, q); }

// sqrt(2 / (pi x)) times P and Q turned by the phase x - (2 order + 1) pi / 4: Hankel's expansion, for x > 5.
Value Hankel(Builder& b, Value x, int order, bool second_kind) {
  Value w = 5.0 / x;
  Value z = w * w;
  Value p = order == 0 ? Ratio(b, z, kPp0, kPq0) : Ratio(b, z, kPp1, kPq1);
  Value q = w * (order == 0 ? Ratio(b, z, kQp0, kQq0) : Ratio(b, z, kQp1, kQq1));
  Value phase = x - (2 * order + 1) * kPi / 4.0;
  Value turned = second_kind ? p * b.Sin(phase) + q * b.Cos(phase) : p * b.Cos(phase) - q * b.Sin(phase);
  return turned * kSqrtTwoOverPi / b.Sqrt(x);
}

// The factors are the squares of the function's first two zeros.
Value J0(Builder& b, Value x) {
  Value ax = b.Abs(x), z = x * x;
  Value small = (z - 5.78318596294678452118) * (z - 30.4712623436620863991) * Ratio(b, z, kRp0, kRq0);
  small = b.Select(b.Lt(ax, 1e-5), 1.0 - z / 4.0, small);
  return b.Select(b.Le(ax, 5.0), small, Hankel(b, ax, 0, false));
}

Value J1(Builder& b, Value x) {
  Value ax = b.Abs(x), z = x * x;
  Value small = Ratio(b, z, kRp1, kRq1) * x * (z - 14.6819706421238932572) * (z - 49.2184563216946036703);
  Value large = Hankel(b, ax, 1, false);
  return b.Select(b.Le(ax, 5.0), small, b.Select(b.Lt(x, 0.0), b.Neg(large), large));
}

// -inf at 0, NaN below.
Value SecondKind(Builder& b, Value x, Value small, int order) {
  Value y = b.Select(b.Le(x, 5.0), small, Hankel(b, x, order, true));
  return b.Select(b.Eq(x, 0.0), -kInf, b.Select(b.Lt(x, 0.0), kNan, y));
}
Value Y0(Builder& b, Value x) {
  return SecondKind(b, x, Ratio(b, x * x, kYp0, kYq0) + kTwoOverPi * b.Log(x) * J0(b, x), 0);
}
Value Y1(Builder& b, Value x) {
  Value singular = J1(b, x) * b.Log(x) - b.Reciprocal(x);
  return SecondKind(b, x, x * Ratio(b, x * x, kYp1, kYq1) + kTwoOverPi * singular, 1);
}

// sin(x) / x; its Taylor series below 1/2.
Value SphericalJ0(Builder& b, Value x) {
  constexpr double kTaylor[] = {
      1.0 / 6227020800.0, -1.0 / 39916800.0, 1.0 / 362880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0, 1.0};
  Value y = b.Select(b.Lt(b.Abs(x), 0.5), Horner(b, x * x, kTaylor), b.Sin(x) / x);
  return b.Select(b.IsInf(x), 0.0, y);
}

// Enough terms of the Maclaurin series for |x| < 2.09.
constexpr int kAiryTerms = 20;

Value AiryAi(Builder& b, Value x) {
  // Oscillating, x < -2.09.
  Value root = b.Sqrt(b.Abs(x));
  Value zeta = 2.0 * b.Abs(x) * root / 3.0;
  Value w = 1.0 / zeta;
  Value w2 = w * w;
  Value t = zeta + kPi / 4.0;
  Value amplitude = kInvSqrtPi / b.Sqrt(root);
  Value negative =
      amplitude * (b.Sin(t) * (1.0 + w2 * Ratio(b, w2, kAfn, kAfd)) - b.Cos(t) * (w * Ratio(b, w2, kAgn, kAgd)));
  // Decaying, x >= 2.09.
  Value positive = kInvSqrtPi * Ratio(b, w, kAn, kAd) / (2.0 * b.Sqrt(root) * b.Exp(zeta));
  // Ai(0) f - Ai'(0) g between, f and g the two power series.
  Value z = x * x * x;
  Value f = b.Full(x.dims(), 1.0, x.dtype()), g = x, m = f, n = x;
  for (int i = 0; i < kAiryTerms; ++i) {
    m = m * z * (1.0 / ((3.0 * i + 2.0) * (3.0 * i + 3.0)));
    n = n * z * (1.0 / ((3.0 * i + 3.0) * (3.0 * i + 4.0)));
    f = f + m;
    g = g + n;
  }
  Value middle = 0.355028053887817239260 * f - 0.258819403792806798405 * g;
  Value y = b.Select(b.Lt(x, -2.09), negative, b.Select(b.Ge(x, 2.09), positive, middle));
  y = b.Select(b.Gt(x, 103.892), 0.0, y);
  return b.Select(b.IsInf(x), kNan, y);
}

}  // namespace

LOWER("special_bessel_j0", J0, kPointwise);
LOWER("special_bessel_j1", J1, kPointwise);
LOWER("special_bessel_y0", Y0, kPointwise);
LOWER("special_bessel_y1", Y1, kPointwise);
LOWER("special_spherical_bessel_j0", SphericalJ0, kPointwise);
LOWER("special_airy_ai", AiryAi, kPointwise);

}  // namespace tpu::lowering
