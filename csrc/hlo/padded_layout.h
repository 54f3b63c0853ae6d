// Where the true elements of a padded array are.
//
// A padded array has the sizes of a bucket; fewer of its elements are true. A dimension that was merged from several keeps
// them apart: [2, s] flattened to [2 s] lies in memory as 2 rows of the bucket's length, each with s true elements. So an
// axis is a list of factors, outer first, each with its true size. A linear axis, of one factor, has its true elements at
// the front.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "hlo/builder.h"
#include "hlo/polynomial.h"

namespace tpu::hlo {

struct Factor {
  Polynomial size;
  bool uniform = false;  // all elements along it are equal, those of the padding too
};
using Axis = std::vector<Factor>;  // empty: of size 1. No two neighbours are constant.
using Axes = std::vector<Axis>;

struct Laid {
  Value value;
  Axes axes;
};

Axis LinearAxis(const Polynomial& size, bool uniform = false);
Axes LinearAxes(std::span<const Polynomial> sizes);
Polynomial SizeOf(const Axis& axis);
bool IsStatic(const Axis& axis);
bool IsStatic(const Axes& axes);
bool IsUniform(const Axis& axis);
// True elements lie at the front.
bool IsLinear(const Axis& axis);
bool SameFactors(const Axis& a, const Axis& b);
// Joins neighbours that are constant, and drops ones.
Axis Normalised(const Axis& axis);
// The array as one box of factors, row-major: the same for arrays that differ by a reshape.
std::vector<Polynomial> BoxOf(const Axes& axes);

// Emits what layouts need. `symbols`: their true values, i64 scalars.
class Layouts {
 public:
  Layouts(Builder& b, std::span<const int64_t> bucket, std::span<const Value> symbols);

  Builder& builder() const { return b_; }
  int64_t Padded(const Polynomial& size) const { return size.At(bucket_); }
  Ints Padded(std::span<const Polynomial> sizes) const;
  Ints PaddedDims(const Axes& axes) const;
  // The true value, an i64 or i32 scalar.
  Value True(const Polynomial& size);
  Value True32(const Polynomial& size);
  // Which places along the axis are true: bool of its padded size.
  Value Valid(const Axis& axis);
  // Which elements are true in these dimensions; an empty Value where all are.
  Value Valid(const Axes& axes, std::span<const int64_t> dims);
  // `x` with `fill`, a scalar, in the padding of these dimensions.
  Value Masked(const Laid& x, std::span<const int64_t> dims, Value fill);
  // The same true elements, elsewhere: moves them where it must. Factors' products must agree.
  Laid WithAxis(Laid x, int64_t dim, const Axis& axis);
  Laid WithAxes(Laid x, const Axes& axes);
  Laid Linear(Laid x, int64_t dim);
  // One layout for all, dimension by dimension; arrays of one shape.
  Axes Merge(std::span<Laid> xs);
  // One layout for dimension da of a and db of b.
  Axis MergeDims(Laid& a, int64_t da, Laid& b, int64_t db);
  Laid Reshape(Laid x, std::span<const Polynomial> sizes);

 private:
  Value PlacesOf(const Axis& target, const Axis& source);

  Builder& b_;
  Ints bucket_;
  std::vector<Value> symbols_;
  std::map<Polynomial, Value> true_;
  std::map<std::vector<Polynomial>, Value> valid_;
};

}  // namespace tpu::hlo
