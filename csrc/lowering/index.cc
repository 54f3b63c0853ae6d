// Advanced indexing (x[i, :, j]) as one gather or scatter. Masks have become indices before they get here.
#include <algorithm>

#include "lowering/indexing.h"

namespace tpu::lowering {
namespace {

// What a list of optional index tensors selects, by NumPy's rule: the indexed dimensions are replaced by those of the
// broadcast indices, at the first of them if they are adjacent and in front otherwise.
struct Selection {
  Value coordinates;  // [broadcast dims..., indexed dimensions]
  Ints indexed;       // the indexed dimensions of x
  Ints window;        // where the others appear in the result
  Ints dims;          // of the result
  bool empty = false;
};

enum class Bounds { kWrap, kClampAtZero, kClampWrapped };

Value Bounded(Builder& b, Value index, int64_t dim, int64_t size, Bounds bounds) {
  if (bounds == Bounds::kWrap) {
    b.CheckIndex(index, dim, -size, size);
    return WrapIndex(b, index, size);
  }
  int64_t low = bounds == Bounds::kClampAtZero ? 0 : -size;
  Value clamped = b.Clamp(b.ConstInt(low, index.dtype()), index, b.ConstInt(size - 1, index.dtype()));
  return WrapIndex(b, clamped, size);
}

Selection Select(Builder& b, Value x, const OptionalValues& indices, Bounds bounds = Bounds::kWrap) {
  Selection selection;
  Ints broadcast;
  bool wide = false;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d]) continue;
    int64_t dim = static_cast<int64_t>(d);
    selection.indexed.push_back(dim);
    broadcast = hlo::BroadcastDims(broadcast, indices[d]->dims());
    wide = wide || Narrow(b, *indices[d], x.dim(dim)).dtype() == DType::kI64;
  }
  int64_t count = static_cast<int64_t>(selection.indexed.size());
  int64_t inserted = static_cast<int64_t>(broadcast.size());
  bool adjacent = count > 0 && selection.indexed.back() - selection.indexed.front() == count - 1;
  int64_t at = adjacent ? selection.indexed.front() : 0;
  for (int64_t dim : OtherDims(x.rank(), selection.indexed)) {
    int64_t place = static_cast<int64_t>(selection.dims.size());
    selection.window.push_back(place < at ? place : place + inserted);
    selection.dims.push_back(x.dim(dim));
  }
  selection.dims.insert(selection.dims.begin() + at, broadcast.begin(), broadcast.end());
  selection.empty = hlo::NumElements(selection.dims) == 0;
  if (selection.empty || count == 0) return selection;

  Ints with_coordinate = broadcast;
  with_coordinate.push_back(1);
  std::vector<Value> coordinates;
  for (int64_t dim : selection.indexed) {
    Value index = Bounded(b, *indices[dim], dim, x.dim(dim), bounds);
    index = b.Cast(index, wide ? DType::kI64 : DType::kI32);
    coordinates.push_back(b.Reshape(b.BroadcastTo(index, broadcast), with_coordinate));
  }
  selection.coordinates = count == 1 ? coordinates[0] : b.Concat(coordinates, inserted);
  return selection;
}

Value GatherSelection(Builder& b, Value x, const Selection& selection) {
  if (selection.empty) return b.Zeros({x.dtype(), selection.dims});
  if (selection.indexed.empty()) return x;
  hlo::GatherDims dims;
  dims.offset_dims = selection.window;
  dims.collapsed_slice_dims = selection.indexed;
  dims.start_index_map = selection.indexed;
  dims.index_vector_dim = selection.coordinates.rank() - 1;
  Ints sizes = x.dims();
  for (int64_t dim : selection.indexed) sizes[dim] = 1;
  return b.Gather(x, selection.coordinates, dims, sizes);
}

// Accumulation is in float32 for half types, as CUDA's opmath is.
Value ScatterSelection(Builder& b, Value x, const Selection& selection, Value values, bool accumulate) {
  if (selection.empty) return x;
  values = b.BroadcastTo(b.Cast(values, x.dtype()), selection.dims);
  if (selection.indexed.empty()) return accumulate ? b.Add(x, values) : values;
  hlo::ScatterDims dims;
  dims.update_window_dims = selection.window;
  dims.inserted_window_dims = selection.indexed;
  dims.scatter_dims_to_operand_dims = selection.indexed;
  dims.index_vector_dim = selection.coordinates.rank() - 1;
  if (!accumulate) return b.Scatter(x, selection.coordinates, values, dims, TakeUpdate);
  return b.Scatter(Widened(b, x), selection.coordinates, Widened(b, values), dims, AddUpdate);
}

Value Index(Builder& b, Value x, OptionalValues indices) { return GatherSelection(b, x, Select(b, x, indices)); }
LOWER("index.Tensor", Index, kExact);
LOWER("_unsafe_index.Tensor", Index, kExact);

Value IndexPut(Builder& b, Value x, OptionalValues indices, Value values, bool accumulate) {
  return ScatterSelection(b, x, Select(b, x, indices), values, accumulate);
}
LOWER("index_put", IndexPut, kExact);
LOWER("_unsafe_index_put", IndexPut, kExact);

Value IndexPutImpl(Builder& b, Value x, OptionalValues indices, Value values, bool accumulate, bool /*unsafe*/) {
  return IndexPut(b, x, indices, values, accumulate);
}
LOWER("_index_put_impl", IndexPutImpl, kExact | kExpanded);

// Indices may be out of range where the mask is false.
Value MaskedIndex(Builder& b, Value x, Value mask, OptionalValues indices, Value fill) {
  Selection selection = Select(b, x, indices, Bounds::kClampAtZero);
  fill = b.Cast(fill, x.dtype());
  if (x.numel() == 0) return b.Full(selection.dims, fill);
  Value taken = GatherSelection(b, x, selection);
  return b.Select(b.BroadcastTo(mask, taken.dims()), taken, fill);
}
LOWER("_unsafe_masked_index", MaskedIndex, kExact);

Value MaskedIndexPutAccumulate(Builder& b, Value x, Value mask, OptionalValues indices, Value values) {
  if (x.numel() == 0) return x;
  return ScatterSelection(b, x, Select(b, x, indices, Bounds::kClampWrapped), b.Select(mask, values, 0.0), true);
}
LOWER("_unsafe_masked_index_put_accumulate", MaskedIndexPutAccumulate, kExact);

}  // namespace
}  // namespace tpu::lowering
