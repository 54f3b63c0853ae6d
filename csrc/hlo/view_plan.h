// How a strided view of a dense array is cut out of it, as a list of steps on shapes: the integer half of view.h.
//
// Pure functions of sizes: no Builder, no element types. view.cc turns each step into one or two instructions; the tests
// interpret the same steps on plain arrays.
#pragma once

#include <span>
#include <vector>

#include "hlo/view.h"

namespace tpu::hlo {

struct ViewStep {
  enum class Kind {
    kReshape,
    kSlice,      // starts, limits, strides
    kPad,        // zeros, as many as dims.back() asks, at the end of the last axis
    kUnfold,     // [..., n + pieces - 1, s] -> [..., n, pieces * s]: each row followed by the next pieces - 1 rows
    kGather,     // on the last axis: [..., L] -> [..., index sizes..., window]
    kTranspose,  // axes: where each axis of the result comes from
    kBroadcast,  // axes: where each axis of the operand goes
  };
  Kind kind = Kind::kReshape;
  Ints dims;  // of the result
  Ints starts, limits, strides;
  Ints axes;
  int64_t pieces = 0;
  // Gather: element (i...) or window (i..., 0 to window - 1) at offset + sum of i * index_strides; no window when 0.
  Ints index_sizes, index_strides;
  int64_t offset = 0, window = 0;
};

// The steps from an array of `base_dims` to the view's elements in view.sizes. The view must not be empty.
std::vector<ViewStep> PlanRead(std::span<const int64_t> base_dims, const View& view);

// A write runs `base` forward, keeping what each step was applied to, puts the result of `update` in place of what came
// out, and undoes the steps of `base` from the last to the first: a slice by updating the kept array, a gather by
// scattering into it, a pad by cropping. The view must not be empty and must end within base_dims.
struct WritePlan {
  std::vector<ViewStep> base;    // kReshape, kSlice, kPad and kGather only
  std::vector<ViewStep> update;  // from view.sizes to the dims that `base` ends in
};
WritePlan PlanWrite(std::span<const int64_t> base_dims, const View& view);

}  // namespace tpu::hlo
