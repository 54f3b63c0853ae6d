// Products of float8 and integer matrices with scales.
#include "lowering/lowering.h"

namespace tpu::lowering {
namespace {

Value IntMm(Builder& b, Value x, Value y) { return b.MatMul(x, y, DType::kI32); }
LOWER("_int_mm", IntMm, kExact);

// scale [rows / r, columns / c] repeated to the matrix's shape; the last block may be cut.
Value SpreadScale(Builder& b, Value scale, const Ints& dims) {
  Ints split, kept, merged;
  for (int64_t d = 0; d < 2; ++d) {
    int64_t block = (dims[d] + scale.dim(d) - 1) / scale.dim(d);
    kept.push_back(2 * d);
    split.insert(split.end(), {scale.dim(d), block});
    merged.push_back(scale.dim(d) * block);
  }
  return b.Slice(b.Reshape(b.BroadcastInDim(scale, split, kept), merged), Ints{0, 0}, dims);
}

// out = (x * scale_x) @ (y * scale_y) + bias. One scale for all, or one for each row of x and column of y, is applied
// to the product, whose float8 factors are exact in bfloat16; blocks of scales to the factors.
Value ScaledMm(Builder& b, Value x, Value y, Value scale_x, Value scale_y, std::optional<Value> bias,
               std::optional<Value> scale_result, std::optional<DType> out_dtype, bool /*use_fast_accum*/) {
  Value sx = b.Cast(scale_x, DType::kF32), sy = b.Cast(scale_y, DType::kF32);
  auto along = [](Value scale, const Ints& dims) { return scale.numel() == 1 || scale.dims() == dims; };
  Value out;
  if (along(sx, Ints{x.dim(0), 1}) && along(sy, Ints{1, y.dim(1)})) {
    if (sx.numel() == 1) sx = b.Reshape(sx, Ints{});
    if (sy.numel() == 1) sy = b.Reshape(sy, Ints{});
    out = b.MatMul(b.Cast(x, DType::kBF16), b.Cast(y, DType::kBF16), DType::kF32) * sx * sy;
  } else {
    out = b.MatMul(b.Cast(x, DType::kF32) * SpreadScale(b, sx, x.dims()),
                   b.Cast(y, DType::kF32) * SpreadScale(b, sy, y.dims()));
  }
  if (bias) out = out + b.Cast(*bias, DType::kF32);
  if (scale_result && out_dtype && IsFloat8(*out_dtype)) out = out * b.Cast(*scale_result, DType::kF32);
  return out;
}
LOWER("_scaled_mm", ScaledMm, kExact);

// x [M, K] @ weight [N, K]^T with one scale for each of the N int8 rows.
Value WeightInt8Mm(Builder& b, Value x, Value weight, Value scales) {
  Value product =
      b.DotGeneral(x, b.Cast(weight, x.dtype()), {}, {}, Ints{1}, Ints{1}, IsHalf(x.dtype()) ? DType::kF32 : x.dtype());
  return product * b.Cast(scales, product.dtype());
}
LOWER("_weight_int8pack_mm", WeightInt8Mm, kExact);

}  // namespace
}  // namespace tpu::lowering
