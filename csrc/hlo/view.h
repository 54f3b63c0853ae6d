// A strided view over a flat, dense, row-major array, read and written with StableHLO.
//
// Pure integer arithmetic: View says where the elements are, ReadView and WriteView emit slice, pad, reshape, transpose
// and broadcast (or update-slice) for every geometry whose rows do not overlap. Rows that do are read as slices side by
// side while those are few, and otherwise gathered; they are written by scatter. Strides are never negative (PyTorch has
// none). The plans are made in view_plan.h.
#pragma once

#include <span>

#include "hlo/builder.h"

namespace tpu::hlo {

struct View {
  Ints sizes;
  Ints strides;  // in elements of the view's own dtype
  int64_t offset = 0;
  // The view's elements are the conjugates, the negatives, of those in memory.
  bool conjugate = false, negative = false;
  bool operator==(const View&) const = default;
};

// Row-major, offset zero, over exactly these sizes.
bool IsContiguous(const View& view);
// Every element of a flat array of `numel` elements is written exactly once by a write through `view`.
bool CoversAll(const View& view, int64_t numel);
// One past the last flat element that the view touches; 0 when it is empty.
int64_t Extent(const View& view);

// The view's elements as an array of view.sizes and `dtype`, from `base` (any shape; read as flat row-major).
// A base of another element type is reinterpreted bit for bit (float32 as int32, uint8 bytes as float32, complex64 as
// pairs of float32); a base shorter than the view's extent reads as zeros past its end.
Value ReadView(Builder& b, Value base, const View& view, DType dtype);

// `base` with the view's elements replaced by `update` (of view.sizes, already of the view's element type).
// The result has the element type of `update` and dims `result_dims` (numel = bytes of the storage / item size), zero
// padded where base was shorter. Without a base, untouched elements are zero. Of elements that `update` gives several
// values any one is written. Throws BuildError if the view ends past result_dims.
Value WriteView(Builder& b, std::optional<Value> base, const View& view, Value update,
                std::span<const int64_t> result_dims);

// What a view is, apart from where it begins: over arrays of the same dims, views of equal `shape` are cut out by one
// program, which takes `starts` as data.
struct ViewPlace {
  Ints shape;   // all of the plan but its slices' starts
  Ints starts;  // of the slices, in order
};
// Nothing for a view that is the whole array, has a step, or overlaps itself: its program is its own. The view must end
// within `dims`.
std::optional<ViewPlace> PlaceOf(std::span<const int64_t> dims, const View& view, bool for_write);
// As ReadView and WriteView, of any view of the same shape: the one at `starts`, i64[n]. Types and sizes are base's.
Value ReadViewAt(Builder& b, Value base, const View& view, Value starts);
Value WriteViewAt(Builder& b, Value base, const View& view, Value update, Value starts);

}  // namespace tpu::hlo
