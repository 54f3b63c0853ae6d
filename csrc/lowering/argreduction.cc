// Extremes along a dimension together with where they are: the first of equals, NaN first of all.
#include "lowering/reduction.h"

namespace tpu::lowering {
namespace {

using ArgExtreme = std::pair<Value, Value> (Builder::*)(Value, int64_t);

// {value, index}, the dimension kept. Booleans compare as integers.
template <ArgExtreme extreme>
std::pair<Value, Value> Along(Builder& b, Value x, int64_t dim) {
  if (x.dim(dim) == 0) {
    throw hlo::BuildError("expected reduction dim " + std::to_string(dim) + " to have non-zero size",
                          Code::kOutOfRange);
  }
  return (b.*extreme)(IsBool(x.dtype()) ? b.Cast(x, DType::kU8) : x, dim);
}

template <ArgExtreme extreme>
std::pair<Value, Value> WithIndex(Builder& b, Value x, Dim dim, bool /*keepdim*/) {
  auto [value, index] = Along<extreme>(b, AtLeast1d(b, x), dim);
  return {b.Reshape(value, b.Expected(0).dims), b.Reshape(index, b.Expected(1).dims)};
}
LOWER("max.dim", WithIndex<&Builder::ArgMax>);
LOWER("min.dim", WithIndex<&Builder::ArgMin>);

template <ArgExtreme extreme>
Value IndexOnly(Builder& b, Value x, std::optional<Dim> dim, bool /*keepdim*/) {
  Value rows = dim ? AtLeast1d(b, x) : b.Flatten(x);
  return b.Reshape(Along<extreme>(b, rows, dim ? dim->value : 0).second, b.Expected().dims);
}
LOWER("argmax", IndexOnly<&Builder::ArgMax>);
LOWER("argmin", IndexOnly<&Builder::ArgMin>);

}  // namespace
}  // namespace tpu::lowering
