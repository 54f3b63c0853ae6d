#include "lowering/indexing.h"

#include <algorithm>
#include <limits>

namespace tpu::lowering {
namespace {

Value MultiplyUpdate(Builder& b, Value old, Value update) { return b.Mul(old, update); }
Value MaxUpdate(Builder& b, Value old, Value update) { return b.Max(old, update); }
Value MinUpdate(Builder& b, Value old, Value update) { return b.Min(old, update); }

struct Reduction {
  Value (*combine)(Builder&, Value, Value);
  Value identity;
};

Reduction ReductionOf(Builder& b, std::string_view reduce, DType dtype) {
  if (reduce == "prod" || reduce == "multiply") return {MultiplyUpdate, b.Const(1.0, dtype)};
  if (reduce == "amax") return {MaxUpdate, Lowest(b, dtype)};
  if (reduce == "amin") return {MinUpdate, Highest(b, dtype)};
  return {AddUpdate, b.Const(0.0, dtype)};
}

// Rounds to minus infinity; n > 0.
Value FloorDivide(Builder& b, Value x, Value n) {
  Value quotient = b.Div(x, n);
  if (IsUnsigned(x.dtype())) return quotient;
  return b.Sub(quotient, b.Cast(b.Lt(b.Rem(x, n), 0.0), x.dtype()));
}

Value Limit(Builder& b, DType dtype, bool highest) {
  if (IsBool(dtype)) return b.Const(highest ? 1.0 : 0.0, dtype);
  if (!IsInteger(dtype)) {
    double infinity = std::numeric_limits<double>::infinity();
    return b.Const(highest ? infinity : -infinity, dtype);
  }
  if (IsUnsigned(dtype)) return highest ? b.Not(b.ConstInt(0, dtype)) : b.ConstInt(0, dtype);
  int shift = 64 - static_cast<int>(ItemSize(dtype)) * 8;
  int64_t limit = highest ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
  return b.ConstInt(limit >> shift, dtype);
}

}  // namespace

Value TakeUpdate(Builder& /*b*/, Value /*old*/, Value update) { return update; }
Value AddUpdate(Builder& b, Value old, Value update) { return b.Add(old, update); }

int64_t WrapDim(int64_t dim, int64_t rank) { return dim < 0 ? dim + rank : dim; }

Ints OtherDims(int64_t rank, std::span<const int64_t> dims) {
  Ints others;
  for (int64_t d = 0; d < rank; ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) others.push_back(d);
  }
  return others;
}

Value AtLeast1D(Builder& b, Value x) { return x.rank() == 0 ? b.Reshape(x, Ints{1}) : x; }

Value Narrow(Builder& b, Value index, int64_t size) {
  if (ItemSize(index.dtype()) == 8 && size > std::numeric_limits<int32_t>::max()) return index;
  return b.Cast(index, DType::kI32);
}

Value WrapIndex(Builder& b, Value index, int64_t size) {
  Value narrow = Narrow(b, index, size);
  return b.Select(b.Lt(narrow, 0.0), b.Add(narrow, b.ConstInt(size, narrow.dtype())), narrow);
}

Value IotaAlong(Builder& b, int64_t rank, int64_t dim, int64_t size, DType dtype) {
  Ints dims(rank, 1);
  dims.at(dim) = size;
  return b.Iota(dims, dim, dtype);
}

Value Highest(Builder& b, DType dtype) { return Limit(b, dtype, true); }
Value Lowest(Builder& b, DType dtype) { return Limit(b, dtype, false); }

Value InclusiveSum(Builder& b, Value x) {
  if (x.numel() < 2) return x;
  auto add = [&b](std::span<const Value> low, std::span<const Value> high) {
    return std::vector<Value>{b.Add(low[0], high[0])};
  };
  return b.AssociativeScan(std::vector<Value>{x}, 0, add).at(0);
}

Value Widened(Builder& b, Value x) { return IsHalf(x.dtype()) ? b.Cast(x, DType::kF32) : x; }

Value SelectRows(Builder& b, Value x, int64_t dim, Value index) {
  Ints out = x.dims(), sizes = x.dims();
  out.at(dim) = index.dim(0);
  if (hlo::NumElements(out) == 0) return b.Zeros({x.dtype(), out});
  sizes.at(dim) = 1;
  hlo::GatherDims dims;
  dims.offset_dims = OtherDims(x.rank(), Ints{dim});
  dims.collapsed_slice_dims = {dim};
  dims.start_index_map = {dim};
  dims.index_vector_dim = 1;
  return b.Gather(x, b.Unsqueeze(Narrow(b, index, x.dim(dim)), 1), dims, sizes);
}

Value ScatterRows(Builder& b, Value x, int64_t dim, Value index, Value updates, const Combine& combine) {
  if (updates.numel() == 0 || x.numel() == 0) return x;
  hlo::ScatterDims dims;
  dims.update_window_dims = OtherDims(x.rank(), Ints{dim});
  dims.inserted_window_dims = {dim};
  dims.scatter_dims_to_operand_dims = {dim};
  dims.index_vector_dim = 1;
  return b.Scatter(x, b.Unsqueeze(Narrow(b, index, x.dim(dim)), 1), updates, dims, combine);
}

Value ScatterAlong(Builder& b, Value x, int64_t dim, Value index, Value updates, const Combine& combine) {
  if (index.numel() == 0 || x.numel() == 0) return x;
  int64_t rank = index.rank();
  Ints starts(rank, 0), with_coordinate = index.dims();
  if (updates.dims() != index.dims()) updates = b.Slice(updates, starts, index.dims());
  with_coordinate.push_back(1);
  bool wide = x.dim(dim) > std::numeric_limits<int32_t>::max();
  std::vector<Value> coordinates;
  hlo::ScatterDims dims;
  for (int64_t d = 0; d < rank; ++d) {
    DType dtype = wide ? DType::kI64 : DType::kI32;
    Value along = d == dim ? b.Cast(index, dtype) : b.Iota(index.dims(), d, dtype);
    coordinates.push_back(b.Reshape(along, with_coordinate));
    dims.inserted_window_dims.push_back(d);
    dims.scatter_dims_to_operand_dims.push_back(d);
  }
  dims.index_vector_dim = rank;
  return b.Scatter(x, b.Concat(coordinates, rank), updates, dims, combine);
}

Value ReduceInto(Builder& b, Value self, Value source, std::string_view reduce, bool include_self,
                 const Scatterer& scatter) {
  Reduction reduction = ReductionOf(b, reduce, self.dtype());
  bool mean = reduce == "mean";
  Value base = self, count;
  if (mean || !include_self) {
    count = scatter(b.Full(self.dims(), 0.0, DType::kI32), b.Full(source.dims(), 1.0, DType::kI32), AddUpdate);
  }
  if (!include_self) base = b.Select(b.Gt(count, 0.0), b.BroadcastTo(reduction.identity, self.dims()), self);
  Value reduced = scatter(base, source, reduction.combine);
  if (!mean) return reduced;
  Value n = b.Cast(b.Max(include_self ? count + 1.0 : count, 1.0), self.dtype());
  return IsInteger(self.dtype()) ? FloorDivide(b, reduced, n) : b.Div(reduced, n);
}

}  // namespace tpu::lowering
