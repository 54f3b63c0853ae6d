// A list of view steps under construction: keeps them few, and slices along the array's own axes where it can.
#pragma once

#include <span>
#include <vector>

#include "hlo/view_plan.h"

namespace tpu::hlo {

// One axis of a box and the arithmetic progression that is taken from it.
struct Axis {
  int64_t extent, start, count, step;
  int64_t last() const { return start + (count - 1) * step; }
  bool whole() const { return count == extent; }
};
inline Axis Whole(int64_t extent) { return {extent, 0, extent, 1}; }

// `dims` without the dimensions of size 1.
Ints WithoutOnes(std::span<const int64_t> dims);

class Steps {
 public:
  explicit Steps(std::span<const int64_t> dims) : initial_(dims.begin(), dims.end()) {}

  // What the list ends in.
  const Ints& dims() const { return list_.empty() ? initial_ : list_.back().dims; }
  std::vector<ViewStep> Take() { return std::move(list_); }

  ViewStep& Add(ViewStep::Kind kind, Ints dims);
  // Each of these adds nothing where it would change nothing.
  void Reshape(Ints dims);
  void Transpose(Ints axes);
  void PadLast(int64_t size);
  void Broadcast(Ints dims, Ints axes);
  // Reads the array as the box of `axes` and takes their progressions out of it.
  void Slice(std::vector<Axis> axes, bool for_write);

 private:
  std::vector<Axis> SplitAtOwnAxes(const std::vector<Axis>& axes) const;

  Ints initial_;
  std::vector<ViewStep> list_;
};

}  // namespace tpu::hlo
