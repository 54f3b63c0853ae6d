// QR, its pieces, and least squares.
#include <algorithm>

#include "lowering/matrix_stack.h"

namespace tpu::lowering {
namespace {

LOWER("geqrf", Geqrf);
LOWER("linalg_householder_product", [](Builder& b, Value reflectors, Value tau) {
  return HouseholderProduct(b, reflectors, tau, reflectors.dim(-1));
});

// mode "reduced": Q [m, k], R [k, n]; "complete": Q [m, m], R [m, n]; "r": R [k, n] alone; k = min(m, n).
std::pair<Value, Value> Qr(Builder& b, Value a, std::string_view mode) {
  int64_t m = a.dim(-2), n = a.dim(-1), k = std::min(m, n);
  auto [factors, tau] = Geqrf(b, a);
  int64_t rows = mode == "complete" ? m : k;
  Value q = mode == "r" ? b.Full(Ints{0}, 0.0, a.dtype()) : HouseholderProduct(b, factors, tau, rows);
  Value r = Triu(b, b.SliceDim(factors, -2, 0, std::min(rows, m)));
  return {q, b.BroadcastTo(r, Join(StackDims(a), Ints{rows, n}))};
}
LOWER("linalg_qr", Qr);

// Q y, Q^H y, y Q or y Q^H with Q [m, m] the product of all reflectors.
Value Ormqr(Builder& b, Value reflectors, Value tau, Value y, bool left, bool transpose) {
  Value q = HouseholderProduct(b, reflectors, tau, reflectors.dim(-2));
  if (transpose) q = ConjTranspose(b, q);
  return left ? b.MatMul(q, y) : b.MatMul(y, q);
}
LOWER("ormqr", Ormqr);

// min |A x - y| for A of full rank, by QR of A (m >= n) or, for the shortest x, of A^H. As the driver "gels", the only
// one on CUDA: no rank and no singular values. {solution, residuals, rank, singular values}
std::vector<Value> Lstsq(Builder& b, Value a, Value y, std::optional<double> /*rcond*/,
                         std::optional<std::string_view> /*driver*/) {
  int64_t m = a.dim(-2), n = a.dim(-1);
  Ints a_lead = StackDims(a), vector_dims = Join(a_lead, Ints{m});
  bool vector = y.rank() == 1 || (y.rank() + 1 == a.rank() && y.dims() == vector_dims);
  if (vector) y = b.Unsqueeze(y, -1);
  Ints lead = hlo::BroadcastDims(a_lead, StackDims(y));
  a = ExpandStack(b, a, lead), y = ExpandStack(b, y, lead);
  Value x, none = b.Full(Ints{0}, 0.0, RealOf(a.dtype())), residuals = none;
  if (y.numel() == 0 || a.numel() == 0) {
    x = b.Full(Join(lead, Ints{n, y.dim(-1)}), 0.0, a.dtype());
  } else if (m >= n) {
    auto [q, r] = Qr(b, a, "reduced");
    x = b.TriangularSolve(r, b.MatMul(ConjTranspose(b, q), y), true, false, false, "NO_TRANSPOSE");
  } else {
    auto [q, r] = Qr(b, ConjTranspose(b, a), "reduced");
    x = b.MatMul(q, b.TriangularSolve(r, y, true, false, false, "ADJOINT"));
  }
  if (m > n) {
    Value error = b.Abs(b.MatMul(a, x) - y);
    residuals = b.Sum(error * error, Ints{y.rank() - 2}, false);
    if (vector) residuals = b.Squeeze(residuals, -1);
  }
  return {vector ? b.Squeeze(x, -1) : x, residuals, b.Full(Ints{0}, 0.0, DType::kI64), none};
}
LOWER("linalg_lstsq", Lstsq);

}  // namespace
}  // namespace tpu::lowering
