// Arrays put side by side, padded and repeated.
#include "lowering/indexing.h"

namespace tpu::lowering {
namespace {

// 1-D empty tensors are skipped whatever the ranks of the others.
Value Cat(Builder& b, std::vector<Value> xs, int64_t dim) {
  const Type& out = b.Expected();
  std::vector<Value> parts;
  for (Value x : xs) {
    if (x.numel() > 0) parts.push_back(b.Cast(x, out.dtype));
  }
  if (parts.empty()) return b.Zeros(out);
  return parts.size() == 1 ? parts[0] : b.Concat(parts, WrapDim(dim, static_cast<int64_t>(out.dims.size())));
}
LOWER("cat", Cat, kExact);

Value Stack(Builder& b, std::vector<Value> xs, int64_t dim) {
  const Type& out = b.Expected();
  int64_t wrapped = WrapDim(dim, static_cast<int64_t>(out.dims.size()));
  for (Value& x : xs) x = b.Unsqueeze(b.Cast(x, out.dtype), wrapped);
  return xs.size() == 1 ? xs[0] : b.Concat(xs, wrapped);
}
LOWER("stack", Stack, kExact);
LOWER("_stack", Stack, kExact);

// Vectors are rows, scalars one by one.
Value BlockDiag(Builder& b, std::vector<Value> xs) {
  const Type& out = b.Expected();
  std::vector<Value> parts;
  int64_t before = 0;
  for (Value x : xs) {
    if (x.rank() < 2) x = b.Reshape(x, Ints{1, x.numel()});
    int64_t after = out.dims[1] - before - x.dim(1);
    Value part = b.Cast(x, out.dtype);
    parts.push_back(b.Pad(part, b.Const(0.0, out.dtype), Ints{0, before}, Ints{0, after}));
    before += x.dim(1);
  }
  return b.Concat(parts, 0);
}
LOWER("block_diag", BlockDiag, kExact);

// `pad` is {low, high} of the last dimension, then of the one before, and so on.
Value ConstantPad(Builder& b, Value x, Ints pad, Value value) {
  Ints low(x.rank(), 0), high(x.rank(), 0);
  for (size_t i = 0; i + 1 < pad.size(); i += 2) {
    size_t dim = static_cast<size_t>(x.rank()) - 1 - i / 2;
    low[dim] = pad[i];
    high[dim] = pad[i + 1];
  }
  return b.Pad(x, b.Cast(value, x.dtype()), low, high);
}
LOWER("constant_pad_nd", ConstantPad, kExact);

// A broadcast along a new dimension before each one, which then merge.
Value Repeat(Builder& b, Value x, Ints repeats) {
  size_t lead = repeats.size() - static_cast<size_t>(x.rank());
  Ints spread, places, out;
  for (size_t i = 0; i < repeats.size(); ++i) {
    int64_t size = i < lead ? 1 : x.dim(static_cast<int64_t>(i - lead));
    spread.push_back(repeats[i]);
    if (i >= lead) {
      places.push_back(static_cast<int64_t>(spread.size()));
      spread.push_back(size);
    }
    out.push_back(repeats[i] * size);
  }
  return b.Reshape(b.BroadcastInDim(x, spread, places), out);
}
LOWER("repeat", Repeat, kExact);

}  // namespace
}  // namespace tpu::lowering
