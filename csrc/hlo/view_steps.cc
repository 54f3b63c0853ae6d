#include "hlo/view_steps.h"

#include <algorithm>
#include <iterator>

namespace tpu::hlo {
namespace {

using Kind = ViewStep::Kind;

// Splits `axis` into rows of `width`, if the progression is then a box of two progressions.
bool Split(const Axis& axis, int64_t width, Axis* outer, Axis* inner) {
  int64_t row = axis.start / width, column = axis.start % width, rows = axis.extent / width;
  if (axis.last() / width == row) {  // within one row
    *outer = {rows, row, 1, 1};
    *inner = {width, column, axis.count, axis.step};
  } else if (axis.step % width == 0) {  // one column
    *outer = {rows, row, axis.count, axis.step / width};
    *inner = {width, column, 1, 1};
  } else if (width % axis.step == 0 && column < axis.step && axis.count * axis.step % width == 0) {  // rows alike
    *outer = {rows, row, axis.count * axis.step / width, 1};
    *inner = {width, column, width / axis.step, axis.step};
  } else {
    return false;
  }
  return true;
}

// A write with a step needs a mask over the whole array; rows that are `step` apart can be an axis of their own instead.
// Not for the last axis, whose elements are better left side by side.
std::vector<Axis> StepsAsAxes(std::vector<Axis> axes) {
  auto divides = [](const Axis& a) { return a.extent % a.step == 0; };
  if (axes.back().step != 1 || !std::all_of(axes.begin(), axes.end(), divides)) return axes;
  std::vector<Axis> result;
  for (const Axis& a : axes) {
    if (a.step == 1) {
      result.push_back(a);
    } else {
      result.push_back({a.extent / a.step, a.start / a.step, a.count, 1});
      result.push_back({a.step, a.start % a.step, 1, 1});
    }
  }
  return result;
}

}  // namespace

Ints WithoutOnes(std::span<const int64_t> dims) {
  Ints result;
  std::copy_if(dims.begin(), dims.end(), std::back_inserter(result), [](int64_t d) { return d != 1; });
  return result;
}

ViewStep& Steps::Add(Kind kind, Ints dims) {
  ViewStep& step = list_.emplace_back();
  step.kind = kind;
  step.dims = std::move(dims);
  return step;
}

void Steps::Reshape(Ints dims) {
  if (!list_.empty() && list_.back().kind == Kind::kReshape) list_.pop_back();
  if (dims != this->dims()) Add(Kind::kReshape, std::move(dims));
}

void Steps::Transpose(Ints axes) {
  if (std::is_sorted(axes.begin(), axes.end())) return;
  Ints dims;
  for (int64_t axis : axes) dims.push_back(this->dims()[axis]);
  Add(Kind::kTranspose, std::move(dims)).axes = std::move(axes);
}

void Steps::PadLast(int64_t size) {
  Ints dims = this->dims();
  if (dims.back() == size) return;
  dims.back() = size;
  if (!list_.empty() && list_.back().kind == Kind::kPad) list_.pop_back();
  Add(Kind::kPad, std::move(dims));
}

void Steps::Broadcast(Ints dims, Ints axes) {
  if (dims != this->dims()) Add(Kind::kBroadcast, std::move(dims)).axes = std::move(axes);
}

std::vector<Axis> Steps::SplitAtOwnAxes(const std::vector<Axis>& axes) const {
  std::vector<Axis> result;
  Ints strides = ContiguousStrides(dims());
  int64_t unit = 1;
  for (const Axis& axis : axes) unit *= axis.extent;
  for (Axis axis : axes) {
    int64_t outside = unit;
    unit /= axis.extent;
    for (int64_t stride : strides) {
      if (stride <= unit || stride >= outside || outside % stride != 0 || stride % unit != 0) continue;
      Axis outer;
      if (!Split(axis, stride / unit, &outer, &axis)) continue;
      result.push_back(outer);
      outside = stride;
    }
    result.push_back(axis);
  }
  return result;
}

void Steps::Slice(std::vector<Axis> axes, bool for_write) {
  if (std::all_of(axes.begin(), axes.end(), [](const Axis& a) { return a.whole(); })) return;
  axes = SplitAtOwnAxes(axes);
  std::erase_if(axes, [](const Axis& a) { return a.extent == 1; });
  if (for_write) axes = StepsAsAxes(std::move(axes));
  Ints extents;
  for (const Axis& a : axes) extents.push_back(a.extent);
  if (extents == WithoutOnes(dims())) {
    for (size_t i = 0; i < dims().size(); ++i) {
      if (dims()[i] == 1) axes.insert(axes.begin() + static_cast<int64_t>(i), Whole(1));
    }
  } else {
    Reshape(extents);
  }
  ViewStep slice;
  slice.kind = Kind::kSlice;
  for (const Axis& a : axes) {
    slice.dims.push_back(a.count);
    slice.starts.push_back(a.start);
    slice.limits.push_back(a.last() + 1);
    slice.strides.push_back(a.step);
  }
  list_.push_back(std::move(slice));
}

}  // namespace tpu::hlo
