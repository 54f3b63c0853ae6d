// One index per row along a dimension: index_select, index_add, index_copy, index_fill, index_reduce; and take and put,
// whose dimension is all of the tensor.
#include "lowering/indexing.h"

namespace tpu::lowering {
namespace {

Value IndexSelect(Builder& b, Value x, Dim dim, Value index) {
  if (index.rank() > 1) {
    throw hlo::BuildError("expected an index of at most one dimension, found " + hlo::ToString(index.type()),
                          Code::kOutOfRange);
  }
  Ints out = x.dims();
  if (x.rank() > 0) out.at(dim) = index.numel();
  x = AtLeast1D(b, x);
  b.CheckIndex(index, dim, 0, x.dim(dim));
  return b.Reshape(SelectRows(b, x, dim, AtLeast1D(b, index)), out);
}
LOWER("index_select", IndexSelect, kExact);

// The operands of an op that writes rows of `self` at `index`, 0-d ones as 1-d; `source` may have one dimension less.
struct RowWrite {
  Value self, index, source;
  Ints out;
};
RowWrite RowsOf(Builder& b, Value self, int64_t dim, Value index, Value source) {
  RowWrite write{AtLeast1D(b, self), AtLeast1D(b, index), b.Cast(source, self.dtype()), self.dims()};
  b.CheckIndex(write.index, dim, 0, write.self.dim(dim));
  Ints rows = write.self.dims();
  rows.at(dim) = write.index.dim(0);
  write.source =
      hlo::NumElements(rows) == source.numel() ? b.Reshape(write.source, rows) : b.BroadcastTo(write.source, rows);
  return write;
}

Value IndexAdd(Builder& b, Value self, Dim dim, Value index, Value source, Value alpha) {
  RowWrite write = RowsOf(b, self, dim, index, source);
  Value scaled = b.Mul(write.source, b.Cast(alpha, self.dtype()));
  return b.Reshape(ScatterRows(b, write.self, dim, write.index, scaled, AddUpdate), write.out);
}
LOWER("index_add", IndexAdd, kSharesNothing);

Value IndexCopy(Builder& b, Value self, Dim dim, Value index, Value source) {
  RowWrite write = RowsOf(b, self, dim, index, source);
  return b.Reshape(ScatterRows(b, write.self, dim, write.index, write.source, TakeUpdate), write.out);
}
LOWER("index_copy", IndexCopy, kExact | kSharesNothing);

// A mask of the rows: the update is one scalar, so a scatter of that many booleans is enough.
Value IndexFill(Builder& b, Value self, Dim dim, Value index, Value value) {
  Value x = AtLeast1D(b, self);
  if (x.numel() == 0) return self;
  int64_t size = x.dim(dim);
  index = AtLeast1D(b, index);
  b.CheckIndex(index, dim, -size, size);
  Value none = b.Full(Ints{size}, 0.0, DType::kBool);
  Value all = b.Full(index.dims(), 1.0, DType::kBool);
  Value rows = ScatterRows(b, none, 0, WrapIndex(b, index, size), all, TakeUpdate);
  Value mask = b.BroadcastInDim(rows, x.dims(), Ints{dim});
  return b.Reshape(b.Select(mask, b.Cast(value, self.dtype()), x), self.dims());
}
LOWER("index_fill.int_Scalar", IndexFill, kExact | kNumbersFit | kExpandedWarns | kSharesNothing);
LOWER("index_fill.int_Tensor", IndexFill, kExact | kExpandedWarns | kSharesNothing);

Value IndexReduce(Builder& b, Value self, Dim dim, Value index, Value source, std::string_view reduce,
                  bool include_self) {
  RowWrite write = RowsOf(b, self, dim, index, source);
  auto scatter = [&](Value base, Value updates, const Combine& combine) {
    return ScatterRows(b, base, dim, write.index, updates, combine);
  };
  return b.Reshape(ReduceInto(b, write.self, write.source, reduce, include_self, scatter), write.out);
}
LOWER("index_reduce", IndexReduce, kSharesNothing);

Value Take(Builder& b, Value x, Value index) {
  b.CheckIndex(index, 0, -x.numel(), x.numel());
  if (index.numel() == 0) return b.Zeros({x.dtype(), index.dims()});
  return b.Reshape(SelectRows(b, b.Flatten(x), 0, b.Flatten(WrapIndex(b, index, x.numel()))), index.dims());
}
LOWER("take", Take, kExact);

Value Put(Builder& b, Value self, Value index, Value source, bool accumulate) {
  if (index.numel() == 0 || self.numel() == 0) return self;
  b.CheckIndex(index, 0, -self.numel(), self.numel());
  Value flat = b.Flatten(self), updates = b.Flatten(b.Cast(source, self.dtype()));
  Value at = b.Flatten(WrapIndex(b, index, self.numel()));
  Value written = accumulate ? ScatterRows(b, Widened(b, flat), 0, at, Widened(b, updates), AddUpdate)
                             : ScatterRows(b, flat, 0, at, updates, TakeUpdate);
  return b.Reshape(written, self.dims());
}
LOWER("put", Put, kExact | kSharesNothing);

}  // namespace
}  // namespace tpu::lowering
