// Padding and shapes: broadcast, transpose, slice, concatenate, pad, reverse, and slices at run-time places.
#include <algorithm>

#include "hlo/builder_text.h"
#include "hlo/padded_emitter.h"

namespace tpu::hlo {

void PaddedEmitter::Iota(const Instruction& i) {
  const Sizes& sizes = ResultSizes(i);
  const int64_t dim = i.pieces.at(1).number.constant();
  Axes axes;
  for (size_t d = 0; d < sizes.size(); ++d) axes.push_back(LinearAxis(sizes[d], static_cast<int64_t>(d) != dim));
  SetResults(i, Instantiate(i, {}), axes);
}

void PaddedEmitter::Broadcast(const Instruction& i) {
  const Laid& x = At(i.operands[0]);
  const Sizes& sizes = ResultSizes(i);
  const Ints dims = i.Numbers("dims = [");
  Axes axes;
  for (const Polynomial& size : sizes) axes.push_back(LinearAxis(size, true));
  for (size_t d = 0; d < dims.size(); ++d) {
    if (SizeOf(x.axes[d]) == sizes[dims[d]]) axes[dims[d]] = x.axes[d];
  }
  SetResults(i, Instantiate(i, std::span(&x, 1)), axes);
}

void PaddedEmitter::Transpose(const Instruction& i) {
  const Laid& x = At(i.operands[0]);
  Axes axes;
  for (int64_t d : i.Numbers("dims = [")) axes.push_back(x.axes[d]);
  SetResults(i, Instantiate(i, std::span(&x, 1)), axes);
}

void PaddedEmitter::Slice(const Instruction& i) {
  Laid x = At(i.operands[0]);
  const std::vector<SymbolicProgram::Range> ranges = i.Ranges();
  const Sizes& sizes = ResultSizes(i);
  const auto rank = static_cast<int64_t>(sizes.size());
  if (ranges.size() != sizes.size()) RefusePadding(i.op, "its text is not as expected");
  Ints starts(rank, 0), limits(rank), strides(rank, 1), high(rank, 0);
  std::vector<Value> at(rank, b_.ConstInt(0));
  Ints lengths(rank);
  bool moves = false;
  for (int64_t d = 0; d < rank; ++d) {
    const SymbolicProgram::Range& r = ranges[d];
    const bool whole = r.start == Polynomial(0) && r.limit == SizeOf(x.axes[d]) && r.stride == 1;
    if (!whole) {
      const bool uniform = IsUniform(x.axes[d]) && !x.axes[d].empty();
      x = lay_.Linear(std::move(x), d);
      x.axes[d] = LinearAxis(sizes[d], uniform);
    }
    const Polynomial length = r.limit - r.start;
    lengths[d] = lay_.Padded(length);
    if (r.start.is_constant()) {
      starts[d] = r.start.constant();
      limits[d] = lay_.Padded(r.limit);
    } else {
      // From a run-time place: as many as the bucket may need, past the end if need be.
      moves = true;
      at[d] = lay_.True(r.start);
      high[d] = lengths[d];
      starts[d] = 0;
      limits[d] = lengths[d];
    }
    strides[d] = r.stride;
  }
  if (moves) {
    x.value = b_.Pad(x.value, b_.ConstInt(0, x.value.dtype()), Ints(rank, 0), high);
    Ints taken = x.value.dims();
    for (int64_t d = 0; d < rank; ++d)
      if (high[d] > 0 || !ranges[d].start.is_constant()) taken[d] = lengths[d];
    x.value = b_.DynamicSlice(x.value, at, taken);
  }
  x.value = b_.Slice(x.value, starts, limits, strides);
  Set(i.first_result, std::move(x));
}

void PaddedEmitter::Concat(const Instruction& i) {
  std::vector<Laid> xs = Operands(i);
  const auto label = i.Find("dim = ");
  const int64_t dim = i.pieces.at(*label + 1).number.constant();
  bool movable = false;  // the true elements of all but the last reach to their ends
  for (size_t k = 0; k < xs.size(); ++k) {
    if (k + 1 < xs.size() && !IsStatic(xs[k].axes[dim])) movable = true;
    xs[k] = lay_.Linear(std::move(xs[k]), dim);
  }
  // One layout in the other dimensions.
  Axes axes = xs[0].axes;
  for (int round = 0; round < 2; ++round) {
    for (Laid& x : xs) {
      for (size_t d = 0; d < axes.size(); ++d) {
        if (static_cast<int64_t>(d) == dim) continue;
        const Axis merged = lay_.MergeDims(xs[0], static_cast<int64_t>(d), x, static_cast<int64_t>(d));
        axes[d] = merged;
        for (Factor& f : axes[d]) f.uniform = false;
      }
    }
  }
  axes[dim] = LinearAxis(ResultSizes(i)[dim]);
  if (!movable) return SetResults(i, Instantiate(i, xs), axes);
  // Each over the padding of those before it.
  const Type type = PaddedResult(i);
  const auto rank = static_cast<int64_t>(axes.size());
  Ints high(rank, 0);
  high[dim] = type.dims[dim] - xs[0].value.dims()[dim];
  Value joined = b_.Pad(xs[0].value, b_.ConstInt(0, type.dtype), Ints(rank, 0), high);
  Polynomial offset = SizeOf(xs[0].axes[dim]);
  for (size_t k = 1; k < xs.size(); ++k) {
    std::vector<Value> at(rank, b_.ConstInt(0));
    at[dim] = lay_.True(offset);
    joined = b_.DynamicUpdateSlice(joined, xs[k].value, at);
    offset += SizeOf(xs[k].axes[dim]);
  }
  Set(i.first_result, {joined, axes});
}

void PaddedEmitter::Pad(const Instruction& i) {
  Laid x = At(i.operands[0]);
  const Laid fill = At(i.operands[1]);
  const std::vector<Polynomial> low = i.List("low = ["), high = i.List("high = [");
  const Ints inner = i.Numbers("interior = [");
  const Sizes& sizes = ResultSizes(i);
  const auto rank = static_cast<int64_t>(sizes.size());
  Ints dims, lows(rank), highs(rank);
  std::vector<Value> shift(rank, b_.ConstInt(0));
  bool moves = false;
  for (int64_t d = 0; d < rank; ++d) {
    const bool same = low[d] == Polynomial(0) && high[d] == Polynomial(0) && inner[d] == 0;
    if (same) continue;
    x = lay_.Linear(std::move(x), d);
    dims.push_back(d);
    lows[d] = lay_.Padded(low[d]);
    highs[d] = lay_.Padded(high[d]);
    if (!low[d].is_constant()) {
      moves = true;
      if (highs[d] < 0 || lows[d] < 0 || inner[d] != 0) RefusePadding(i.op, "it crops by a size");
      shift[d] = lay_.True(low[d]);
    }
  }
  x.value = lay_.Masked(x, dims, fill.value);
  for (int64_t d : dims) x.axes[d] = LinearAxis(sizes[d]);
  if (!moves) {
    x.value = b_.Pad(x.value, fill.value, lows, highs, inner);
  } else {
    Ints none(rank, 0), later = highs;
    for (int64_t d : dims)
      if (!low[d].is_constant()) later[d] = lows[d] = 0;
    x.value = b_.Pad(x.value, fill.value, lows, later, inner);
    x.value = b_.DynamicUpdateSlice(b_.Full(lay_.Padded(sizes), b_.Cast(fill.value, x.value.dtype())), x.value, shift);
  }
  Set(i.first_result, std::move(x));
}

void PaddedEmitter::Reverse(const Instruction& i) {
  Laid x = At(i.operands[0]);
  const Ints dims = i.Numbers("dims = [");
  const auto rank = static_cast<int64_t>(x.axes.size());
  Ints high(rank, 0);
  std::vector<Value> at(rank, b_.ConstInt(0));
  bool moves = false;
  for (int64_t d : dims) {
    x = lay_.Linear(std::move(x), d);
    if (IsStatic(x.axes[d]) || IsUniform(x.axes[d])) continue;
    moves = true;
    high[d] = x.value.dims()[d];
    at[d] = b_.ConstInt(high[d]) - lay_.True(SizeOf(x.axes[d]));
  }
  const Ints sizes = x.value.dims();
  x.value = b_.Reverse(x.value, dims);
  if (moves) {
    x.value = b_.Pad(x.value, b_.ConstInt(0, x.value.dtype()), Ints(rank, 0), high);
    x.value = b_.DynamicSlice(x.value, at, sizes);
  }
  Set(i.first_result, std::move(x));
}

// As XLA clamps it, at the true size.
Value PaddedEmitter::Start(Value start, const Polynomial& size, const Polynomial& taken) {
  start = b_.Cast(start, DType::kI64);
  return b_.Clamp(b_.ConstInt(0), start, b_.Max(lay_.True(size - taken), b_.ConstInt(0)));
}

void PaddedEmitter::DynamicSlice(const Instruction& i) {
  Laid x = At(i.operands[0]);
  const Sizes& sizes = ResultSizes(i);
  const auto rank = static_cast<int64_t>(sizes.size());
  Ints high(rank, 0);
  std::vector<Value> at;
  for (int64_t d = 0; d < rank; ++d) {
    const Polynomial size = SizeOf(x.axes[d]);
    if (sizes[d] == size) {
      at.push_back(b_.ConstInt(0));
      continue;
    }
    x = lay_.Linear(std::move(x), d);
    at.push_back(Start(At(i.operands[d + 1]).value, size, sizes[d]));
    if (!sizes[d].is_constant()) high[d] = lay_.Padded(sizes[d]);
    x.axes[d] = LinearAxis(sizes[d]);
  }
  x.value = b_.Pad(x.value, b_.ConstInt(0, x.value.dtype()), Ints(rank, 0), high);
  x.value = b_.DynamicSlice(x.value, at, lay_.Padded(sizes));
  Set(i.first_result, std::move(x));
}

void PaddedEmitter::DynamicUpdateSlice(const Instruction& i) {
  Laid x = At(i.operands[0]), update = At(i.operands[1]);
  const auto rank = static_cast<int64_t>(x.axes.size());
  Ints high(rank, 0), partial;
  std::vector<Value> at;
  for (int64_t d = 0; d < rank; ++d) {
    const Polynomial size = SizeOf(x.axes[d]), taken = SizeOf(update.axes[d]);
    if (size == taken) {
      x.axes[d] = lay_.MergeDims(x, d, update, d);
      at.push_back(b_.ConstInt(0));
    } else {
      x = lay_.Linear(std::move(x), d);
      update = lay_.Linear(std::move(update), d);
      at.push_back(Start(At(i.operands[d + 2]).value, size, taken));
      if (!taken.is_constant()) {
        partial.push_back(d);
        high[d] = lay_.Padded(taken);
      }
    }
    for (Factor& f : x.axes[d]) f.uniform = false;
  }
  const Ints sizes = x.value.dims();
  x.value = b_.Pad(x.value, b_.ConstInt(0, x.value.dtype()), Ints(rank, 0), high);
  if (Value valid = lay_.Valid(update.axes, partial); valid.valid()) {
    // What lies under the update's padding stays.
    Value under = b_.DynamicSlice(x.value, at, update.value.dims());
    update.value = b_.Select(valid, b_.Cast(update.value, x.value.dtype()), under);
  }
  x.value = b_.DynamicUpdateSlice(x.value, update.value, at);
  x.value = b_.Slice(x.value, Ints(rank, 0), sizes);
  Set(i.first_result, std::move(x));
}

}  // namespace tpu::hlo
