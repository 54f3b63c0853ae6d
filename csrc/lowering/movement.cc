// Elements moved within a tensor: flip, roll, rot90.
#include "lowering/indexing.h"

namespace tpu::lowering {
namespace {

Value Flip(Builder& b, Value x, DimList dims) {
  return x.rank() == 0 || dims.dims.empty() ? x : b.Reverse(x, dims.dims);
}
LOWER("flip", Flip, kExact);

// Element i moves to (i + shift) mod size.
Value RollDim(Builder& b, Value x, int64_t shift, int64_t dim) {
  int64_t size = x.dim(dim);
  if (size == 0) return x;
  int64_t start = ((-shift) % size + size) % size;
  if (start == 0) return x;
  std::vector<Value> parts{b.SliceDim(x, dim, start, size), b.SliceDim(x, dim, 0, start)};
  return b.Concat(parts, dim);
}

Value Roll(Builder& b, Value x, Ints shifts, DimList dims) {
  if (x.numel() == 0) return x;
  if (dims.dims.empty()) return b.Reshape(RollDim(b, b.Flatten(x), shifts.at(0), 0), x.dims());
  if (x.rank() == 0) return x;
  for (size_t i = 0; i < shifts.size(); ++i) x = RollDim(b, x, shifts[i], dims.dims.at(i));
  return x;
}
LOWER("roll", Roll, kExact);

// Quarter turns from the first towards the second dimension.
Value Rot90(Builder& b, Value x, int64_t k, DimList dims) {
  int64_t first = dims.dims.at(0), second = dims.dims.at(1);
  switch (((k % 4) + 4) % 4) {
    case 1: return b.SwapDims(b.Reverse(x, Ints{second}), first, second);
    case 2: return b.Reverse(x, Ints{first, second});
    case 3: return b.SwapDims(b.Reverse(x, Ints{first}), first, second);
    default: return x;
  }
}
LOWER("rot90", Rot90, kExact);

}  // namespace
}  // namespace tpu::lowering
