#include "hlo/view.h"

#include <algorithm>
#include <limits>

#include "hlo/view_plan.h"

namespace tpu::hlo {
namespace {

using Kind = ViewStep::Kind;

Ints Zeros(size_t n) { return Ints(n, 0); }

Value PadEnd(Builder& b, Value x, std::span<const int64_t> dims) {
  Ints high;
  for (size_t i = 0; i < dims.size(); ++i) high.push_back(dims[i] - x.dims()[i]);
  return b.Pad(x, b.Const(0.0, x.dtype()), Zeros(dims.size()), high);
}

// `numel` elements in one dimension: cut off, or filled up with zeros.
Value Resize(Builder& b, Value x, int64_t numel) {
  x = b.Reshape(x, Ints{x.numel()});
  if (x.numel() > numel) return b.Slice(x, Ints{0}, Ints{numel});
  return x.numel() < numel ? PadEnd(b, x, Ints{numel}) : x;
}

// Groups of `count` neighbours as a new last dimension; what is missing from the last group is zero.
Value Group(Builder& b, Value x, int64_t count) {
  if (x.rank() == 0 || x.dim(-1) % count != 0) x = Resize(b, x, (x.numel() + count - 1) / count * count);
  Ints dims = x.dims();
  dims.back() /= count;
  dims.push_back(count);
  return b.Reshape(x, dims);
}

Value Part(Builder& b, Value pairs, int64_t i) { return b.Squeeze(b.SliceDim(pairs, -1, i, i + 1), -1); }

// The same bytes as elements of another type. Dimensions are kept where that is possible; narrower elements get a new
// last dimension.
Value Reinterpret(Builder& b, Value x, DType dtype) {
  if (x.dtype() == dtype) return x;
  if (x.dtype() == DType::kBool) return Reinterpret(b, b.Cast(x, DType::kU8), dtype);
  if (dtype == DType::kBool) return b.Cast(Reinterpret(b, x, DType::kU8), dtype);
  if (IsComplex(x.dtype())) {
    Value parts[] = {b.Unsqueeze(b.Real(x), -1), b.Unsqueeze(b.Imag(x), -1)};
    return Reinterpret(b, b.Concat(parts, -1), dtype);
  }
  if (IsComplex(dtype)) {
    Value pairs = Group(b, Reinterpret(b, x, RealOf(dtype)), 2);
    return b.Complex(Part(b, pairs, 0), Part(b, pairs, 1));
  }
  if (int64_t count = static_cast<int64_t>(ItemSize(dtype) / ItemSize(x.dtype())); count > 1) x = Group(b, x, count);
  return b.Bitcast(x, dtype);
}

Value Unfold(Builder& b, Value x, const ViewStep& step) {
  int64_t rows = step.dims[step.dims.size() - 2];
  std::vector<Value> pieces;
  for (int64_t i = 0; i < step.pieces; ++i) pieces.push_back(b.SliceDim(x, -2, i, i + rows));
  return b.Concat(pieces, -1);
}

Value Indices(Builder& b, const ViewStep& step, int64_t length) {
  DType dtype = length > std::numeric_limits<int32_t>::max() ? DType::kI64 : DType::kI32;
  Ints dims = step.index_sizes;
  dims.push_back(1);
  Value indices = b.Full(dims, b.ConstInt(step.offset, dtype));
  for (size_t i = 0; i < step.index_sizes.size(); ++i) {
    indices = indices + b.Iota(dims, static_cast<int64_t>(i), dtype) * b.ConstInt(step.index_strides[i], dtype);
  }
  return indices;
}

Value Gather(Builder& b, Value x, const ViewStep& step) {
  int64_t last = x.rank() - 1, index_rank = static_cast<int64_t>(step.index_sizes.size());
  GatherDims dims;
  for (int64_t i = 0; i < last; ++i) dims.offset_dims.push_back(i);
  if (step.window > 0) {
    dims.offset_dims.push_back(last + index_rank);
  } else {
    dims.collapsed_slice_dims = {last};
  }
  dims.start_index_map = {last};
  dims.index_vector_dim = index_rank;
  Ints slice_sizes = x.dims();
  slice_sizes.back() = std::max<int64_t>(step.window, 1);
  return b.Gather(x, Indices(b, step, x.dim(-1)), dims, slice_sizes);
}

Value Scatter(Builder& b, Value x, Value update, const ViewStep& step) {
  int64_t last = x.rank() - 1, index_rank = static_cast<int64_t>(step.index_sizes.size());
  ScatterDims dims;
  for (int64_t i = 0; i < last; ++i) dims.update_window_dims.push_back(i);
  if (step.window > 0) {
    dims.update_window_dims.push_back(last + index_rank);
  } else {
    dims.inserted_window_dims = {last};
  }
  dims.scatter_dims_to_operand_dims = {last};
  dims.index_vector_dim = index_rank;
  return b.Scatter(x, Indices(b, step, x.dim(-1)), update, dims, [](Builder&, Value, Value after) { return after; });
}

Value Apply(Builder& b, Value x, const ViewStep& step) {
  switch (step.kind) {
    case Kind::kReshape: return b.Reshape(x, step.dims);
    case Kind::kSlice: return b.Slice(x, step.starts, step.limits, step.strides);
    case Kind::kPad: return PadEnd(b, x, step.dims);
    case Kind::kUnfold: return Unfold(b, x, step);
    case Kind::kGather: return Gather(b, x, step);
    case Kind::kTranspose: return b.Transpose(x, step.axes);
    case Kind::kBroadcast: return b.BroadcastInDim(x, step.dims, step.axes);
  }
  return x;
}

// `update` spread over an array of `dims`, in the places that the slice took; `fill` elsewhere.
Value Spread(Builder& b, Value update, double fill, const ViewStep& slice, std::span<const int64_t> dims) {
  Ints high, interior;
  for (size_t i = 0; i < dims.size(); ++i) {
    high.push_back(dims[i] - slice.limits[i]);
    interior.push_back(slice.strides[i] - 1);
  }
  return b.Pad(update, b.Const(fill, update.dtype()), slice.starts, high, interior);
}

Value PutSlice(Builder& b, std::optional<Value> x, std::span<const int64_t> dims, Value update, const ViewStep& slice) {
  if (!x) return Spread(b, update, 0.0, slice, dims);
  const bool dense = std::all_of(slice.strides.begin(), slice.strides.end(), [](int64_t s) { return s == 1; });
  if (dense) return b.UpdateSlice(*x, update, slice.starts);
  Value mask = Spread(b, b.Full(update.dims(), 1.0, DType::kBool), 0.0, slice, dims);
  return b.Select(mask, Spread(b, update, 0.0, slice, dims), *x);
}

// The array that `step` was applied to (zeros of `dims` if none is given), with `update` in place of what came out.
Value Put(Builder& b, std::optional<Value> x, const Type& type, Value update, const ViewStep& step) {
  switch (step.kind) {
    case Kind::kReshape: return b.Reshape(update, type.dims);
    case Kind::kSlice: return PutSlice(b, x, type.dims, update, step);
    case Kind::kPad: return b.Slice(update, Zeros(type.dims.size()), type.dims);
    case Kind::kGather: return Scatter(b, x ? *x : b.Zeros(type), update, step);
    case Kind::kUnfold:
    case Kind::kTranspose:
    case Kind::kBroadcast: break;
  }
  throw BuildError("WriteView: expected a step that can be undone. This is a bug in TorchTPU's view planner.");
}

// What memory holds for the view's elements `x`, and the reverse.
Value AsInMemory(Builder& b, Value x, const View& view) {
  if (view.conjugate) x = b.Conj(x);
  return view.negative ? b.Neg(x) : x;
}

}  // namespace

Value ReadView(Builder& b, Value base, const View& view, DType dtype) {
  if (NumElements(view.sizes) == 0) return b.Zeros({dtype, view.sizes});
  Value x = Reinterpret(b, base, dtype);
  for (const ViewStep& step : PlanRead(x.dims(), view)) x = Apply(b, x, step);
  return AsInMemory(b, x, view);
}

Value WriteView(Builder& b, std::optional<Value> base, const View& view, Value update,
                std::span<const int64_t> result_dims) {
  if (view.conjugate || view.negative) {
    return WriteView(b, base, {view.sizes, view.strides, view.offset}, AsInMemory(b, update, view), result_dims);
  }
  const DType dtype = update.dtype();
  if (base && base->dtype() != dtype && IsHalf(dtype)) {
    // XLA moves small floats by way of wider ones, which changes the bits of NaNs; these may be no floats at all.
    const DType bits = ItemSize(dtype) == 1 ? DType::kU8 : DType::kU16;
    return Reinterpret(b, WriteView(b, base, view, Reinterpret(b, update, bits), result_dims), dtype);
  }
  const int64_t numel = NumElements(result_dims);
  const bool empty = NumElements(view.sizes) == 0;
  if (!empty && CoversAll(view, numel)) base.reset();
  if (base) {
    base = Reinterpret(b, *base, dtype);
    if (base->numel() != numel) base = b.Reshape(Resize(b, *base, numel), result_dims);
  }
  Ints dims = base ? base->dims() : Ints(result_dims.begin(), result_dims.end());
  if (empty) return base ? b.Reshape(*base, result_dims) : b.Zeros({dtype, dims});
  WritePlan plan = PlanWrite(dims, view);
  std::vector<std::optional<Value>> kept;  // what each step of the base is applied to
  std::vector<Type> types;
  for (const ViewStep& step : plan.base) {
    kept.push_back(base);
    types.push_back({dtype, dims});
    if (base) base = Apply(b, *base, step);
    dims = step.dims;
  }
  for (const ViewStep& step : plan.update) update = Apply(b, update, step);
  for (size_t i = plan.base.size(); i-- > 0;) update = Put(b, kept[i], types[i], update, plan.base[i]);
  return b.Reshape(update, result_dims);
}

}  // namespace tpu::hlo
