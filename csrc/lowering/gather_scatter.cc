// gather and the scatter family: one index per element, along one dimension.
#include "lowering/indexing.h"

namespace tpu::lowering {
namespace {

Value Gather(Builder& b, Value x, Dim dim, Value index, bool /*sparse_grad*/) {
  const Ints out = index.dims();
  if (index.numel() == 0) return b.Zeros({x.dtype(), out});
  x = AtLeast1D(b, x);
  index = AtLeast1D(b, index);
  b.CheckIndex(index, dim, 0, x.dim(dim));
  return b.Reshape(b.TakeAlong(x, dim, Narrow(b, index, x.dim(dim))), out);
}
LOWER("gather", Gather, kExact);

// 0-d operands count as 1-d; the result has self's shape.
Value ScatterInto(Builder& b, Value self, Dim dim, Value index, Value source, const Combine& combine) {
  const Ints out = self.dims();
  self = AtLeast1D(b, self);
  index = AtLeast1D(b, index);
  b.CheckIndex(index, dim, 0, self.dim(dim));
  source = b.Cast(AtLeast1D(b, source), self.dtype());
  return b.Reshape(ScatterAlong(b, self, dim, index, source, combine), out);
}

Value Fill(Builder& b, Value self, Value index, Value value) {
  return b.Full(index.dims(), b.Cast(value, self.dtype()));
}

Value ScatterSource(Builder& b, Value self, Dim dim, Value index, Value source) {
  return ScatterInto(b, self, dim, index, source, TakeUpdate);
}
LOWER("scatter.src", ScatterSource, kExact | kSharesNothing);

Value ScatterValue(Builder& b, Value self, Dim dim, Value index, Value value) {
  return ScatterInto(b, self, dim, index, Fill(b, self, index, value), TakeUpdate);
}
LOWER("scatter.value", ScatterValue, kExact | kSharesNothing);

Value ScatterAdd(Builder& b, Value self, Dim dim, Value index, Value source) {
  return ScatterInto(b, self, dim, index, source, AddUpdate);
}
LOWER("scatter_add", ScatterAdd, kSharesNothing);

Value ScatterReduce(Builder& b, Value self, Dim dim, Value index, Value source, std::string_view reduce,
                    bool include_self) {
  const Ints out = self.dims();
  self = AtLeast1D(b, self);
  index = AtLeast1D(b, index);
  source = b.Cast(AtLeast1D(b, source), self.dtype());
  b.CheckIndex(index, dim, 0, self.dim(dim));
  auto scatter = [&](Value base, Value updates, const Combine& combine) {
    return ScatterAlong(b, base, dim, index, updates, combine);
  };
  return b.Reshape(ReduceInto(b, self, source, reduce, include_self, scatter), out);
}
LOWER("scatter_reduce.two", ScatterReduce, kSharesNothing);

Value ScatterSourceReduce(Builder& b, Value self, Dim dim, Value index, Value source, std::string_view reduce) {
  return ScatterReduce(b, self, dim, index, source, reduce, true);
}
LOWER("scatter.reduce", ScatterSourceReduce, kSharesNothing);

Value ScatterValueReduce(Builder& b, Value self, Dim dim, Value index, Value value, std::string_view reduce) {
  return ScatterReduce(b, self, dim, index, Fill(b, self, index, value), reduce, true);
}
LOWER("scatter.value_reduce", ScatterValueReduce, kSharesNothing);

}  // namespace
}  // namespace tpu::lowering
