#include "hlo/view_plan.h"

#include <algorithm>
#include <numeric>

#include "hlo/view_steps.h"

namespace tpu::hlo {
namespace {

using Kind = ViewStep::Kind;

// Overlapping windows are built from this many shifted slices at most; beyond it they are gathered.
constexpr int64_t kMaxPieces = 16;
// Whole windows are taken, and cut later, while they hold at most this many times the elements wanted.
constexpr int64_t kMaxWaste = 4;

struct Dim {
  int64_t size, stride;
};

// The view's dimensions, row-major order restored: `order` lists those that address memory (size and stride > 1 and > 0)
// by falling stride, `merged` the same with neighbours joined wherever one continues the other.
struct Layout {
  Ints order;
  std::vector<Dim> merged;
  bool in_order = true;   // `order` is ascending
  bool expanded = false;  // some dimension repeats by stride 0
};

Layout LayoutOf(const View& view) {
  Layout layout;
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] == 1) continue;
    if (view.strides[i] == 0) {
      layout.expanded = true;
    } else {
      layout.order.push_back(static_cast<int64_t>(i));
    }
  }
  // Of equal strides the longest first: the windows of the others are then the shortest.
  std::stable_sort(layout.order.begin(), layout.order.end(), [&](int64_t a, int64_t b) {
    return view.strides[a] != view.strides[b] ? view.strides[a] > view.strides[b] : view.sizes[a] > view.sizes[b];
  });
  layout.in_order = std::is_sorted(layout.order.begin(), layout.order.end());
  for (int64_t i : layout.order) {
    Dim dim{view.sizes[i], view.strides[i]};
    if (!layout.merged.empty() && layout.merged.back().stride == dim.size * dim.stride) {
      layout.merged.back() = {layout.merged.back().size * dim.size, dim.stride};
    } else {
      layout.merged.push_back(dim);
    }
  }
  return layout;
}

// Cuts the layout's elements out of a dense array, one dimension after the other, outermost first. What is left to cut
// is always the last axis, `tail_` long, with the first element at `offset_`; the axes before it are pending in axes_.
class Cutter {
 public:
  Cutter(Steps& steps, const Layout& layout, int64_t offset, bool for_write)
      : steps_(steps), dims_(layout.merged), offset_(offset), for_write_(for_write) {
    tail_ = NumElements(steps.dims());
  }

  void Cut() {
    for (size_t i = 0; i + 1 < dims_.size(); ++i) {
      int64_t reach = 0;  // from an element's row start to the last element of the row
      for (size_t j = i + 1; j < dims_.size(); ++j) reach += (dims_[j].size - 1) * dims_[j].stride;
      if (dims_[i].stride > reach) {
        if (!SplitInPlace(dims_[i], reach)) SplitAfterCrop(dims_[i]);
      } else if (!Unfold(i, reach + 1)) {
        return GatherRest(i);
      }
    }
    Dim last = dims_.empty() ? Dim{1, 1} : dims_.back();
    axes_.push_back({tail_, offset_, last.size, last.stride});
    steps_.Slice(axes_, for_write_);
  }

 private:
  // Rows as wide as an axis of the array that divides the stride, or else the widest that divide stride and tail.
  bool SplitInPlace(Dim dim, int64_t reach) {
    int64_t widest = std::gcd(dim.stride, tail_);
    for (int64_t stride : ContiguousStrides(steps_.dims())) {
      if (stride > 0 && widest % stride == 0 && SplitRows(dim, stride, reach)) return true;
    }
    return SplitRows(dim, widest, reach);
  }
  bool SplitRows(Dim dim, int64_t width, int64_t reach) {
    if (offset_ % width + reach >= width) return false;
    axes_.push_back({tail_ / width, offset_ / width, dim.size, dim.stride / width});
    tail_ = width;
    offset_ %= width;
    return true;
  }

  void SplitAfterCrop(Dim dim) {
    CropTail(dim.size * dim.stride);
    axes_.push_back(Whole(dim.size));
    tail_ = dim.stride;
  }

  // Makes the tail `length` long and the array's last axis. `length` is whole rows and the last row may pass the end of
  // the array by what follows its last element; the tail then starts that much before the first element, which the rows
  // have room for, or is padded.
  void CropTail(int64_t length) {
    int64_t excess = std::max<int64_t>(0, offset_ + length - tail_);
    int64_t before = excess <= offset_ ? excess : 0;
    int64_t begin = offset_ - before;
    axes_.push_back({tail_, begin, std::min(length, tail_ - begin), 1});
    Flush();
    steps_.PadLast(length);
    axes_.pop_back();
    tail_ = length;
    offset_ = before;
  }

  // Applies what is pending.
  void Flush() {
    steps_.Slice(axes_, for_write_);
    Ints counts;
    for (Axis& axis : axes_) {
      counts.push_back(axis.count);
      axis = Whole(axis.count);
    }
    steps_.Reshape(counts);
  }

  // Rows that overlap: copies each of them, `width` long, unless far more would be copied than is wanted.
  bool Unfold(size_t i, int64_t width) {
    Dim dim = dims_[i];
    int64_t wanted = 1;
    for (size_t j = i + 1; j < dims_.size(); ++j) wanted *= dims_[j].size;
    // Written copies would have to be told from stale ones.
    if (for_write_ || width > kMaxWaste * wanted) return false;
    int64_t pieces = (width + dim.stride - 1) / dim.stride;
    if (pieces <= kMaxPieces) {
      int64_t rows = dim.size + pieces - 1;
      CropTail(rows * dim.stride);
      Ints dims = steps_.dims();
      dims.back() = rows;
      dims.push_back(dim.stride);
      steps_.Reshape(dims);
      dims[dims.size() - 2] = dim.size;
      dims.back() = pieces * dim.stride;
      steps_.Add(Kind::kUnfold, dims).pieces = pieces;
      tail_ = dims.back();
    } else {
      Gather({dim.size}, {dim.stride}, width);
      tail_ = width;
      offset_ = 0;
    }
    axes_.push_back(Whole(dim.size));
    return true;
  }

  void GatherRest(size_t i) {
    Ints sizes, strides;
    for (; i < dims_.size(); ++i) {
      sizes.push_back(dims_[i].size);
      strides.push_back(dims_[i].stride);
    }
    int64_t window = 0;
    if (strides.back() == 1) {
      window = sizes.back();
      sizes.pop_back();
      strides.pop_back();
    }
    Gather(std::move(sizes), std::move(strides), window);
  }

  void Gather(Ints sizes, Ints strides, int64_t window) {
    axes_.push_back(Whole(tail_));
    Flush();
    axes_.pop_back();
    Ints dims = steps_.dims();
    dims.pop_back();
    dims.insert(dims.end(), sizes.begin(), sizes.end());
    if (window > 0) dims.push_back(window);
    ViewStep& step = steps_.Add(Kind::kGather, std::move(dims));
    step.index_sizes = std::move(sizes);
    step.index_strides = std::move(strides);
    step.offset = offset_;
    step.window = window;
  }

  Steps& steps_;
  const std::vector<Dim>& dims_;
  int64_t offset_, tail_;
  const bool for_write_;
  std::vector<Axis> axes_;
};

Ints SizesOf(const View& view, std::span<const int64_t> order) {
  Ints sizes;
  for (int64_t i : order) sizes.push_back(view.sizes[i]);
  return sizes;
}

// For each dimension of the view, the axis of `stored` that holds it, when `stored` has the view's dimensions in memory
// order with ones anywhere; none otherwise. Dimensions that address no memory take the ones.
bool MatchStored(const View& view, const Layout& layout, std::span<const int64_t> stored, Ints* axis_of) {
  if (stored.size() != view.sizes.size() || WithoutOnes(stored) != SizesOf(view, layout.order)) return false;
  axis_of->assign(view.sizes.size(), -1);
  size_t next = 0;
  Ints ones;
  for (size_t axis = 0; axis < stored.size(); ++axis) {
    if (stored[axis] == 1) {
      ones.push_back(static_cast<int64_t>(axis));
    } else {
      (*axis_of)[layout.order[next++]] = static_cast<int64_t>(axis);
    }
  }
  auto one = ones.begin();
  for (int64_t& axis : *axis_of) {
    if (axis < 0) axis = *one++;
  }
  return true;
}

// Where memory order is the view's own, `stored` matches dimension by dimension or not at all worth a transpose.
bool MatchInOrder(const View& view, std::span<const int64_t> stored) {
  if (stored.size() != view.sizes.size()) return false;
  for (size_t i = 0; i < stored.size(); ++i) {
    if (stored[i] != (view.strides[i] == 0 ? 1 : view.sizes[i])) return false;
  }
  return true;
}

void Arrange(Steps& steps, const View& view, const Layout& layout) {
  Ints axis_of;
  if (!layout.expanded) {
    if (layout.in_order) return steps.Reshape(view.sizes);
    if (!MatchStored(view, layout, steps.dims(), &axis_of)) {
      Ints dims(view.sizes.size() - layout.order.size(), 1);
      Ints sizes = SizesOf(view, layout.order);
      dims.insert(dims.end(), sizes.begin(), sizes.end());
      steps.Reshape(dims);
      MatchStored(view, layout, dims, &axis_of);
    }
    return steps.Transpose(axis_of);
  }
  Ints kept(layout.order);
  std::sort(kept.begin(), kept.end());
  if (layout.in_order && MatchInOrder(view, steps.dims())) {
    kept.resize(view.sizes.size());
    std::iota(kept.begin(), kept.end(), 0);
  } else {
    steps.Reshape(SizesOf(view, layout.order));
    Ints axes;
    for (int64_t i : kept) {
      axes.push_back(std::find(layout.order.begin(), layout.order.end(), i) - layout.order.begin());
    }
    steps.Transpose(axes);
  }
  steps.Broadcast(view.sizes, kept);
}

void ArrangeUpdate(Steps& steps, const View& view, const Layout& layout, const Ints& target) {
  if (layout.expanded) {  // one of the elements written to the same place
    Ints dims = view.sizes;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (view.strides[i] == 0) dims[i] = 1;
    }
    ViewStep& slice = steps.Add(Kind::kSlice, dims);
    slice.starts.assign(dims.size(), 0);
    slice.limits = dims;
    slice.strides.assign(dims.size(), 1);
  }
  if (!layout.in_order) {
    Ints axis_of, axes(view.sizes.size());
    if (MatchStored(view, layout, target, &axis_of)) {
      for (size_t i = 0; i < axes.size(); ++i) axes[axis_of[i]] = static_cast<int64_t>(i);
    } else {
      std::iota(axes.begin(), axes.end(), 0);
      std::erase_if(axes, [&](int64_t i) { return std::count(layout.order.begin(), layout.order.end(), i) > 0; });
      axes.insert(axes.end(), layout.order.begin(), layout.order.end());
    }
    steps.Transpose(axes);
  }
  steps.Reshape(target);
}

}  // namespace

bool IsContiguous(const View& view) {
  if (view.offset != 0) return false;
  if (NumElements(view.sizes) == 0) return true;
  int64_t stride = 1;
  for (size_t i = view.sizes.size(); i-- > 0;) {
    if (view.sizes[i] != 1 && view.strides[i] != stride) return false;
    stride *= view.sizes[i];
  }
  return true;
}

bool CoversAll(const View& view, int64_t numel) {
  if (NumElements(view.sizes) != numel) return false;
  if (numel == 0) return true;
  Layout layout = LayoutOf(view);
  if (view.offset != 0 || layout.expanded) return false;
  return numel == 1 || (layout.merged.size() == 1 && layout.merged[0].stride == 1);
}

int64_t Extent(const View& view) {
  int64_t last = view.offset;
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] == 0) return 0;
    last += (view.sizes[i] - 1) * view.strides[i];
  }
  return last + 1;
}

std::vector<ViewStep> PlanRead(std::span<const int64_t> base_dims, const View& view) {
  Layout layout = LayoutOf(view);
  Steps steps(base_dims);
  if (int64_t extent = Extent(view); extent > NumElements(base_dims)) {
    steps.Reshape({NumElements(base_dims)});
    steps.PadLast(extent);
  }
  Cutter(steps, layout, view.offset, /*for_write=*/false).Cut();
  Arrange(steps, view, layout);
  return steps.Take();
}

WritePlan PlanWrite(std::span<const int64_t> base_dims, const View& view) {
  if (Extent(view) > NumElements(base_dims)) {
    throw BuildError("WriteView: expected a storage of at least " + std::to_string(Extent(view)) + " elements, found " +
                     std::to_string(NumElements(base_dims)));
  }
  Layout layout = LayoutOf(view);
  Steps base(base_dims), update(view.sizes);
  Cutter(base, layout, view.offset, /*for_write=*/true).Cut();
  ArrangeUpdate(update, view, layout, base.dims());
  return {base.Take(), update.Take()};
}

}  // namespace tpu::hlo
