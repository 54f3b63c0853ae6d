// Discrete Fourier transforms over any dimensions.
#include <cmath>

#include "lowering/lowering.h"

namespace tpu::lowering {
namespace {

// fft_norm_mode of ATen: what the unscaled transform is multiplied by.
double Factor(int64_t normalization, int64_t n) {
  if (normalization == 1) return 1.0 / std::sqrt(static_cast<double>(n));
  return normalization == 2 ? 1.0 / static_cast<double>(n) : 1.0;
}

Value Scaled(Builder& b, Value x, double factor) { return factor == 1.0 ? x : x * b.Const(factor, RealOf(x.dtype())); }

// One transform of kind `kind` along `dim`; length is the real side's size.
Value Along(Builder& b, Value x, int64_t dim, std::string_view kind, int64_t length) {
  return b.SwapDims(b.Fft(b.SwapDims(x, dim, -1), kind, Ints{length}), dim, -1);
}

// Unscaled complex transforms along `dims`.
Value ComplexAlong(Builder& b, Value x, std::span<const int64_t> dims, bool forward) {
  for (int64_t dim : dims) {
    x = Along(b, x, dim, forward ? "FFT" : "IFFT", x.dim(dim));
    if (!forward) x = Scaled(b, x, static_cast<double>(x.dim(dim)));  // XLA's inverse divides by the length
  }
  return x;
}

int64_t Length(const Ints& sizes, const Ints& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= sizes[d];
  return n;
}

Value FftC2C(Builder& b, Value x, DimList dims, int64_t normalization, bool forward) {
  return Scaled(b, ComplexAlong(b, x, dims.dims, forward), Factor(normalization, Length(x.dims(), dims.dims)));
}
LOWER("_fft_c2c", FftC2C);

Value FftR2C(Builder& b, Value x, DimList list, int64_t normalization, bool onesided) {
  const Ints& dims = list.dims;
  double factor = Factor(normalization, Length(x.dims(), dims));
  if (!onesided) return Scaled(b, ComplexAlong(b, b.Cast(x, ComplexOf(x.dtype())), dims, true), factor);
  Value y = Along(b, x, dims.back(), "RFFT", x.dim(dims.back()));
  return Scaled(b, ComplexAlong(b, y, std::span(dims).first(dims.size() - 1), true), factor);
}
LOWER("_fft_r2c", FftR2C);

Value FftC2R(Builder& b, Value x, DimList list, int64_t normalization, int64_t last_dim_size) {
  const Ints& dims = list.dims;
  x = ComplexAlong(b, x, std::span(dims).first(dims.size() - 1), false);
  Value y = Along(b, x, dims.back(), "IRFFT", last_dim_size);
  return Scaled(b, y, static_cast<double>(last_dim_size) * Factor(normalization, Length(y.dims(), dims)));
}
LOWER("_fft_c2r", FftC2R);

}  // namespace
}  // namespace tpu::lowering
