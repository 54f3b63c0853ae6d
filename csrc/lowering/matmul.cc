// Products of matrices and vectors. Halfs stay halfs: their products accumulate in float32.
#include <algorithm>

#include "lowering/lowering.h"

namespace tpu::lowering {
namespace {

// The element type in which beta * self + alpha * product is added up.
DType Accumulator(DType t) { return IsHalf(t) ? DType::kF32 : t; }

// beta * self + alpha * product; beta == 0 ignores self, NaN included (as BLAS does).
Value AddScaled(Builder& b, Value self, Value product, Value beta, Value alpha) {
  DType dtype = product.dtype();
  if (IsBool(dtype)) return b.Or(b.And(self, b.Cast(beta, dtype)), b.And(product, b.Cast(alpha, dtype)));
  beta = b.Cast(beta, dtype);
  Value scaled = beta * b.Cast(self, dtype);
  return b.Select(b.Eq(beta, 0.0), b.ZerosLike(scaled), scaled) + b.Cast(alpha, dtype) * product;
}

// A product's operands have one element type, as PyTorch's kernels want it.
void RequireOneType(Value x, Value y) {
  if (x.dtype() == y.dtype()) return;
  throw hlo::BuildError("expected both operands to have the same dtype, found " + std::string(Name(x.dtype())) +
                        " and " + std::string(Name(y.dtype())) + ". Convert one of them with to().");
}

Value Mm(Builder& b, Value x, Value y) {
  RequireOneType(x, y);
  return b.MatMul(x, y);
}
LOWER("mm", Mm, kExact);
LOWER("bmm", Mm, kExact);

Value Mv(Builder& b, Value x, Value v) {
  RequireOneType(x, v);
  return b.DotGeneral(x, v, {}, {}, Ints{1}, Ints{0});
}
LOWER("mv", Mv, kExact);

Value Dot(Builder& b, Value x, Value y) {
  RequireOneType(x, y);
  return b.DotGeneral(x, y, {}, {}, Ints{0}, Ints{0});
}
LOWER("dot", Dot, kExact);
LOWER(
    "vdot", [](Builder& b, Value x, Value y) { return Dot(b, b.Conj(x), y); }, kExact);

// x @ weight^T + bias over x's last dimension.
Value Linear(Builder& b, Value x, Value weight, std::optional<Value> bias) {
  RequireOneType(x, weight);
  const int64_t in = x.dim(-1);
  const Ints outer(x.dims().begin(), x.dims().end() - 1);
  const bool vector = weight.rank() == 1;
  const Value matrix = vector ? b.Unsqueeze(weight, 0) : weight;
  Ints dims = outer;
  if (!vector) dims.push_back(matrix.dim(0));
  const Value rows = b.Reshape(x, Ints{hlo::NumElements(outer), in});
  if (!bias) return b.Reshape(b.DotGeneral(rows, matrix, {}, {}, Ints{1}, Ints{1}), dims);
  RequireOneType(x, *bias);
  Value y = b.DotGeneral(rows, matrix, {}, {}, Ints{1}, Ints{1}, Accumulator(x.dtype()));
  return b.Reshape(y, dims) + b.Cast(*bias, y.dtype());
}
LOWER("linear", Linear, kExact);

Results LinearBackward(Builder& b, Value x, Value grad, Value weight, Ints mask) {
  const int64_t in = weight.dim(-1), out = weight.rank() == 1 ? 1 : weight.dim(0);
  const int64_t rows = hlo::NumElements(std::span(x.dims()).first(x.rank() - 1));
  const Value g = b.Reshape(grad, Ints{rows, out});
  Results gradients(3);
  if (mask[0]) {
    const Value w = b.Conj(b.Reshape(weight, Ints{out, in}));
    gradients[0] = b.Reshape(b.DotGeneral(g, w, {}, {}, Ints{1}, Ints{0}), x.dims());
  }
  if (mask[1]) {
    const Value r = b.Conj(b.Reshape(x, Ints{rows, in}));
    gradients[1] = b.Reshape(b.DotGeneral(g, r, {}, {}, Ints{0}, Ints{0}), weight.dims());
  }
  if (mask[2]) gradients[2] = b.Cast(b.Sum(b.Cast(g, Accumulator(g.dtype())), Ints{0}, false), g.dtype());
  return gradients;
}
LOWER("linear_backward", LinearBackward, kExact | kOwnShape);

// A vector on either side is a matrix of one row or column.
struct Matrices {
  Matrices(Builder& b, Value x, Value y)
      : row(x.rank() == 1), column(y.rank() == 1), x(row ? b.Unsqueeze(x, 0) : x), y(column ? b.Unsqueeze(y, 1) : y) {}
  bool row, column;
  Value x, y;
};

Value MatMul(Builder& b, Value x, Value y) {
  RequireOneType(x, y);
  const Matrices m(b, x, y);
  const Value product = b.MatMul(m.x, m.y);
  Ints dims(product.dims().begin(), product.dims().end());
  if (m.column) dims.pop_back();
  if (m.row) dims.erase(dims.end() - (m.column ? 1 : 2));
  return b.Reshape(product, dims);
}
LOWER("matmul", MatMul, kExact);

// A gradient's product, summed over the dimensions that broadcasting gave it.
Value SumToMatrix(Builder& b, Value product, Value operand) {
  const int64_t more = product.rank() - operand.rank();
  Ints summed;
  for (int64_t d = 0; d < product.rank() - 2; ++d) {
    if (d < more || (operand.dim(d - more) == 1 && product.dim(d) != 1)) summed.push_back(d);
  }
  return summed.empty() ? product : b.Reshape(b.Sum(product, summed, false), operand.dims());
}

Results MatMulBackward(Builder& b, Value grad, Value x, Value y, Ints mask) {
  const Matrices m(b, x, y);
  if (m.column) grad = b.Unsqueeze(grad, grad.rank());
  if (m.row) grad = b.Unsqueeze(grad, grad.rank() - 1);
  const DType sum = Accumulator(grad.dtype());
  const auto transposed = [&](Value v) { return b.Conj(b.SwapDims(v, v.rank() - 2, v.rank() - 1)); };
  Results gradients(2);
  if (mask[0]) {
    const Value product = b.MatMul(grad, transposed(m.y), sum);
    gradients[0] = b.Cast(b.Reshape(SumToMatrix(b, product, m.x), x.dims()), x.dtype());
  }
  if (mask[1]) {
    Value product;
    if (m.y.rank() == 2) {  // every other dimension is contracted
      Ints outer;
      for (int64_t d = 0; d < grad.rank() - 1; ++d) outer.push_back(d);
      Ints full(grad.dims().begin(), grad.dims().end() - 1);
      full.push_back(m.x.dim(-1));
      product = b.DotGeneral(b.Conj(b.BroadcastTo(m.x, full)), grad, {}, {}, outer, outer, sum);
    } else {
      product = b.MatMul(transposed(m.x), grad, sum);
    }
    gradients[1] = b.Cast(b.Reshape(SumToMatrix(b, product, m.y), y.dims()), y.dtype());
  }
  return gradients;
}
LOWER("matmul_backward", MatMulBackward, kExact | kOwnShape);

Value MmTyped(Builder& b, Value x, Value y, DType out) { return b.MatMul(x, y, out); }
LOWER("mm.dtype", MmTyped, kExact);
LOWER("bmm.dtype", MmTyped, kExact);

Value Addmm(Builder& b, Value self, Value x, Value y, Value beta, Value alpha) {
  RequireOneType(x, y);
  return AddScaled(b, self, b.MatMul(x, y, Accumulator(x.dtype())), beta, alpha);
}
LOWER("addmm", Addmm, kExact);
LOWER("baddbmm", Addmm, kExact);

Value AddmmTyped(Builder& b, Value self, Value x, Value y, DType /*out*/, Value beta, Value alpha) {
  return Addmm(b, self, x, y, beta, alpha);
}
LOWER("addmm.dtype", AddmmTyped, kExact);
LOWER("baddbmm.dtype", AddmmTyped, kExact);

Value Addmv(Builder& b, Value self, Value x, Value v, Value beta, Value alpha) {
  RequireOneType(x, v);
  return AddScaled(b, self, b.DotGeneral(x, v, {}, {}, Ints{1}, Ints{0}, Accumulator(x.dtype())), beta, alpha);
}
LOWER("addmv", Addmv, kExact);

// The batch is one more contracted dimension.
Value Addbmm(Builder& b, Value self, Value x, Value y, Value beta, Value alpha) {
  RequireOneType(x, y);
  return AddScaled(b, self, b.DotGeneral(x, y, {}, {}, Ints{0, 2}, Ints{0, 1}, Accumulator(x.dtype())), beta, alpha);
}
LOWER("addbmm", Addbmm, kExact);

Value Addr(Builder& b, Value self, Value u, Value v, Value beta, Value alpha) {
  DType dtype = b.Expected().dtype;
  if (IsHalf(dtype)) dtype = DType::kF32;
  return AddScaled(b, self, b.Cast(b.Unsqueeze(u, 1), dtype) * b.Cast(b.Unsqueeze(v, 0), dtype), beta, alpha);
}
LOWER("addr", Addr);

// gelu is the tanh approximation here, as on CUDA.
Value AddmmActivation(Builder& b, Value self, Value x, Value y, Value beta, Value alpha, bool use_gelu) {
  Value z = Addmm(b, self, x, y, beta, alpha);
  if (!use_gelu) return b.Max(z, 0.0);
  constexpr double kSqrt2OverPi = 0.79788456080286535588;
  return 0.5 * z * (1.0 + b.Tanh(kSqrt2OverPi * (z + 0.044715 * z * z * z)));
}
LOWER("_addmm_activation", AddmmActivation, kExact);

// sum over `sumdim` of the product of three tensors, each given size-1 dimensions at expandN.
Value Trilinear(Builder& b, Value x, Value y, Value z, Ints expand_x, Ints expand_y, Ints expand_z, Ints sumdim,
                int64_t /*unroll_dim*/) {
  auto expand = [&](Value v, Ints& at) {
    std::sort(at.begin(), at.end());
    for (int64_t d : at) v = b.Unsqueeze(v, d);
    return v;
  };
  x = expand(x, expand_x), y = expand(y, expand_y), z = expand(z, expand_z);
  Ints dims = hlo::BroadcastDims(hlo::BroadcastDims(x.dims(), y.dims()), z.dims());
  Ints kept;
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
    bool summed = std::find(sumdim.begin(), sumdim.end(), d) != sumdim.end();
    if (!summed) kept.push_back(dims[d]);
  }
  Value product = b.BroadcastTo(x * y * z, dims);
  return sumdim.empty() ? product : b.Reshape(b.Sum(product, sumdim, false), kept);
}
LOWER("_trilinear", Trilinear);

}  // namespace
}  // namespace tpu::lowering
