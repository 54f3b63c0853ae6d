// Interpolation to a given size: nearest, linear, cubic, and the antialiased filters; one dimension at a time.
// Source positions follow ATen/native/UpSample.h in the precision that it computes them in.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "lowering/resampling.h"

namespace tpu::lowering {
namespace {

enum class Filter { kNearest, kNearestExact, kLinear, kCubic, kLinearAntialias, kCubicAntialias, kLanczosAntialias };
using Scale = std::optional<double>;

constexpr bool IsNearest(Filter f) { return f == Filter::kNearest || f == Filter::kNearestExact; }

// Source pixels per output pixel.
template <typename T>
T Ratio(int64_t in, int64_t out, bool align_corners, Scale scale) {
  if (align_corners) return out > 1 ? static_cast<T>(in - 1) / static_cast<T>(out - 1) : T(0);
  return scale && *scale > 0 ? static_cast<T>(1.0 / *scale) : static_cast<T>(in) / static_cast<T>(out);
}

// Positions are float32 whatever the element type.
Taps NearestTaps(int64_t in, int64_t out, bool exact, Scale scale) {
  float ratio = Ratio<float>(in, out, false, scale);
  Taps taps{in, out, {Ints(out)}, {}};
  for (int64_t o = 0; o < out; ++o) {
    float source = exact ? (static_cast<float>(o) + 0.5f) * ratio : static_cast<float>(o) * ratio;
    taps.index[0][o] = in == out && !exact ? o : std::min(static_cast<int64_t>(std::floor(source)), in - 1);
  }
  return taps;
}

// The convolution coefficients for a distance x >= 0, with a = -0.75 (PyTorch, OpenCV) or -0.5 (PIL).
template <typename T>
T CubicKernel(T x, T a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

template <typename T>
T LanczosKernel(T x) {
  auto sinc = [](T t) { return t == 0 ? T(1) : std::sin(t * std::numbers::pi_v<T>) / (t * std::numbers::pi_v<T>); };
  return std::abs(x) < 3 ? sinc(x) * sinc(x / 3) : T(0);
}

template <typename T>
Taps InterpolationTaps(int64_t in, int64_t out, bool cubic, bool align_corners, Scale scale) {
  T ratio = Ratio<T>(in, out, align_corners, scale);
  int taps_per_output = cubic ? 4 : 2;
  Taps taps{in, out, std::vector<Ints>(taps_per_output, Ints(out)),
            std::vector<std::vector<double>>(taps_per_output, std::vector<double>(out))};
  for (int64_t o = 0; o < out; ++o) {
    T source = align_corners ? ratio * static_cast<T>(o) : ratio * (static_cast<T>(o) + T(0.5)) - T(0.5);
    if (!cubic) source = in == out ? static_cast<T>(o) : std::max(source, T(0));  // a copy, whatever the scale given
    int64_t base = static_cast<int64_t>(std::floor(source));
    if (!cubic) base = std::min(base, in - 1);
    T t = std::clamp(source - static_cast<T>(base), T(0), T(1));
    for (int k = 0; k < taps_per_output; ++k) {
      int64_t position = cubic ? base - 1 + k : base + k;
      taps.index[k][o] = std::clamp<int64_t>(position, 0, in - 1);
      taps.weight[k][o] = cubic ? CubicKernel<T>(t + 1 - static_cast<T>(k), T(-0.75)) : k == 0 ? 1 - t : t;
    }
  }
  return taps;
}

// The filter is stretched by the ratio when shrinking, cut off at the borders and normalised.
template <typename T>
Taps AntialiasTaps(int64_t in, int64_t out, Filter filter, bool align_corners, Scale scale) {
  T ratio = Ratio<T>(in, out, align_corners, scale);
  T half_width = filter == Filter::kLinearAntialias ? T(1) : filter == Filter::kCubicAntialias ? T(2) : T(3);
  T support = ratio >= 1 ? half_width * ratio : half_width;
  T inverse = ratio >= 1 ? 1 / ratio : T(1);
  Taps taps{in, out, {}, {}};
  for (int64_t o = 0; o < out; ++o) {
    T center = ratio * (static_cast<T>(o) + T(0.5));
    int64_t begin = std::max<int64_t>(static_cast<int64_t>(center - support + T(0.5)), 0);
    int64_t end = std::min<int64_t>(static_cast<int64_t>(center + support + T(0.5)), in);
    std::vector<T> weights;
    T total = 0;
    for (int64_t i = begin; i < end; ++i) {
      T x = (static_cast<T>(i) - center + T(0.5)) * inverse;
      T w = filter == Filter::kLinearAntialias  ? std::max(T(0), 1 - std::abs(x))
            : filter == Filter::kCubicAntialias ? CubicKernel<T>(x, T(-0.5))
                                                : LanczosKernel<T>(x);
      weights.push_back(w);
      total += w;
    }
    for (size_t k = 0; k < weights.size(); ++k) {
      if (k == taps.index.size()) {
        taps.index.emplace_back(out, 0);
        taps.weight.emplace_back(out, 0.0);
      }
      taps.index[k][o] = begin + static_cast<int64_t>(k);
      taps.weight[k][o] = total != 0 ? weights[k] / total : weights[k];
    }
  }
  return taps;
}

template <typename T>
Taps MakeTaps(int64_t in, int64_t out, Filter filter, bool align_corners, Scale scale) {
  switch (filter) {
    case Filter::kNearest:
    case Filter::kNearestExact: return NearestTaps(in, out, filter == Filter::kNearestExact, scale);
    case Filter::kLinear:
    case Filter::kCubic: return InterpolationTaps<T>(in, out, filter == Filter::kCubic, align_corners, scale);
    default: return AntialiasTaps<T>(in, out, filter, align_corners, scale);
  }
}

// One map for each of the last dimensions, those that shrink the tensor most first.
template <typename Apply>
Value ForEachDim(Value x, const Ints& in, const Ints& out, bool adjoint, Filter filter, bool align_corners,
                 const std::vector<Scale>& scales, Apply apply) {
  size_t spatial = in.size();
  std::vector<size_t> order(spatial);
  for (size_t i = 0; i < spatial; ++i) order[i] = i;
  auto growth = [&](size_t i) {
    double g = static_cast<double>(out[i]) / static_cast<double>(in[i]);
    return adjoint ? 1 / g : g;
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return growth(i) < growth(j); });
  for (size_t i : order) {
    Taps taps = x.dtype() == DType::kF64 ? MakeTaps<double>(in[i], out[i], filter, align_corners, scales[i])
                                         : MakeTaps<float>(in[i], out[i], filter, align_corners, scales[i]);
    x = apply(x, x.rank() - static_cast<int64_t>(spatial - i), taps);
  }
  return x;
}

Value Interpolate(Builder& b, Value x, const Ints& out, Filter filter, bool align_corners,
                  const std::vector<Scale>& scales) {
  bool rounds = !IsFloat(x.dtype()) && !IsComplex(x.dtype()) && !IsNearest(filter);
  DType dtype = x.dtype();
  if (rounds) x = b.Cast(x, DType::kF32);
  Ints in(x.dims().end() - static_cast<int64_t>(out.size()), x.dims().end());
  Value y = ForEachDim(x, in, out, false, filter, align_corners, scales,
                       [&](Value v, int64_t dim, const Taps& taps) { return Resample(b, v, dim, taps); });
  if (!rounds) return y;
  y = b.RoundEven(y);
  return dtype == DType::kU8 ? b.Min(b.Max(y, 0.0), 255.0) : y;
}

Value InterpolateBackward(Builder& b, Value grad, const Ints& out, const Ints& input_size, Filter filter,
                          bool align_corners, const std::vector<Scale>& scales) {
  Ints in(input_size.end() - static_cast<int64_t>(out.size()), input_size.end());
  return ForEachDim(grad, in, out, true, filter, align_corners, scales,
                    [&](Value v, int64_t dim, const Taps& taps) { return ResampleAdjoint(b, v, dim, taps); });
}

template <Filter filter, typename... Scales>
Value Nearest(Builder& b, Value x, Ints out, Scales... scales) {
  return Interpolate(b, x, out, filter, false, {scales...});
}
template <Filter filter, typename... Scales>
Value NearestBackward(Builder& b, Value grad, Ints out, Ints in, Scales... scales) {
  return InterpolateBackward(b, grad, out, in, filter, false, {scales...});
}
template <Filter filter, typename... Scales>
Value Smooth(Builder& b, Value x, Ints out, bool align_corners, Scales... scales) {
  return Interpolate(b, x, out, filter, align_corners, {scales...});
}
template <Filter filter, typename... Scales>
Value SmoothBackward(Builder& b, Value grad, Ints out, Ints in, bool align_corners, Scales... scales) {
  return InterpolateBackward(b, grad, out, in, filter, align_corners, {scales...});
}

#define TPU_LOWER_UPSAMPLE(name, function, flags, ...) \
  LOWER(name, (function<__VA_ARGS__>), flags); \
  LOWER(name "_backward", (function##Backward<__VA_ARGS__>))

TPU_LOWER_UPSAMPLE("upsample_nearest1d", Nearest, kExact, Filter::kNearest, Scale);
TPU_LOWER_UPSAMPLE("upsample_nearest2d", Nearest, kExact, Filter::kNearest, Scale, Scale);
TPU_LOWER_UPSAMPLE("upsample_nearest3d", Nearest, kExact, Filter::kNearest, Scale, Scale, Scale);
TPU_LOWER_UPSAMPLE("_upsample_nearest_exact1d", Nearest, kExact, Filter::kNearestExact, Scale);
TPU_LOWER_UPSAMPLE("_upsample_nearest_exact2d", Nearest, kExact, Filter::kNearestExact, Scale, Scale);
TPU_LOWER_UPSAMPLE("_upsample_nearest_exact3d", Nearest, kExact, Filter::kNearestExact, Scale, Scale, Scale);
TPU_LOWER_UPSAMPLE("upsample_linear1d", Smooth, kDefault, Filter::kLinear, Scale);
TPU_LOWER_UPSAMPLE("upsample_bilinear2d", Smooth, kDefault, Filter::kLinear, Scale, Scale);
TPU_LOWER_UPSAMPLE("upsample_trilinear3d", Smooth, kDefault, Filter::kLinear, Scale, Scale, Scale);
TPU_LOWER_UPSAMPLE("upsample_bicubic2d", Smooth, kDefault, Filter::kCubic, Scale, Scale);
TPU_LOWER_UPSAMPLE("_upsample_bilinear2d_aa", Smooth, kDefault, Filter::kLinearAntialias, Scale, Scale);
TPU_LOWER_UPSAMPLE("_upsample_bicubic2d_aa", Smooth, kDefault, Filter::kCubicAntialias, Scale, Scale);
TPU_LOWER_UPSAMPLE("_upsample_lanczos2d_aa", Smooth, kDefault, Filter::kLanczosAntialias, Scale, Scale);

#undef TPU_LOWER_UPSAMPLE

}  // namespace
}  // namespace tpu::lowering
