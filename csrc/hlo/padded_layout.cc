#include "hlo/padded_layout.h"

#include <algorithm>
#include <limits>

#include "hlo/builder_text.h"

namespace tpu::hlo {
namespace {

std::vector<Polynomial> SizesOf(const Axis& axis) {
  std::vector<Polynomial> sizes;
  for (const Factor& f : axis) sizes.push_back(f.size);
  return sizes;
}

// Factors in order, given out to dimensions of known sizes.
class Dealer {
 public:
  explicit Dealer(const Axis& factors) : factors_(Normalised(factors)) {
    std::reverse(factors_.begin(), factors_.end());
  }

  // The factors of the next dimension, if its border falls between two.
  std::optional<Axis> Deal(const Polynomial& size) {
    Axis axis;
    Polynomial product = 1;
    while (product != size) {
      if (factors_.empty()) return std::nullopt;
      Factor factor = factors_.back();
      factors_.pop_back();
      const std::optional<Polynomial> wanted = size.Over(product);
      if (!wanted) return std::nullopt;
      if (!wanted->Over(factor.size)) {
        // What is constant, or the same everywhere, can be cut.
        const std::optional<Polynomial> rest = factor.size.Over(*wanted);
        if (!rest || !(factor.uniform || factor.size.is_constant())) return std::nullopt;
        factors_.push_back({*rest, factor.uniform});
        factor.size = *wanted;
      }
      product = product * factor.size;
      axis.push_back(std::move(factor));
    }
    return Normalised(axis);
  }

 private:
  Axis factors_;  // the next one last
};

}  // namespace

Axis LinearAxis(const Polynomial& size, bool uniform) {
  if (size == Polynomial(1)) return {};
  return {{size, uniform}};
}

Axes LinearAxes(std::span<const Polynomial> sizes) {
  Axes axes;
  for (const Polynomial& size : sizes) axes.push_back(LinearAxis(size));
  return axes;
}

Polynomial SizeOf(const Axis& axis) {
  Polynomial size = 1;
  for (const Factor& f : axis) size = size * f.size;
  return size;
}

bool IsStatic(const Axis& axis) {
  return std::all_of(axis.begin(), axis.end(), [](const Factor& f) { return f.size.is_constant(); });
}

bool IsStatic(const Axes& axes) {
  return std::all_of(axes.begin(), axes.end(), [](const Axis& a) { return IsStatic(a); });
}

bool IsUniform(const Axis& axis) {
  return std::all_of(axis.begin(), axis.end(), [](const Factor& f) { return f.uniform; });
}

bool IsLinear(const Axis& axis) { return axis.size() <= 1 || IsUniform(axis); }

bool SameFactors(const Axis& a, const Axis& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Factor& x, const Factor& y) { return x.size == y.size; });
}

Axis Normalised(const Axis& axis) {
  Axis out;
  for (const Factor& f : axis) {
    if (f.size == Polynomial(1)) continue;
    if (!out.empty() && out.back().size.is_constant() && f.size.is_constant()) {
      out.back() = {out.back().size * f.size, out.back().uniform && f.uniform};
    } else {
      out.push_back(f);
    }
  }
  return out;
}

std::vector<Polynomial> BoxOf(const Axes& axes) {
  Axis all;
  for (const Axis& axis : axes) all.insert(all.end(), axis.begin(), axis.end());
  return SizesOf(Normalised(all));
}

Layouts::Layouts(Builder& b, std::span<const int64_t> bucket, std::span<const Value> symbols)
    : b_(b), bucket_(bucket.begin(), bucket.end()), symbols_(symbols.begin(), symbols.end()) {}

Ints Layouts::Padded(std::span<const Polynomial> sizes) const {
  Ints dims;
  for (const Polynomial& size : sizes) dims.push_back(Padded(size));
  return dims;
}

Ints Layouts::PaddedDims(const Axes& axes) const {
  Ints dims;
  for (const Axis& axis : axes) dims.push_back(Padded(SizeOf(axis)));
  return dims;
}

Value Layouts::True(const Polynomial& size) {
  if (const auto it = true_.find(size); it != true_.end()) return it->second;
  Value sum = b_.ConstInt(0);
  bool first = true;
  for (const auto& [exponents, coefficient] : size.terms()) {
    Value term = b_.ConstInt(coefficient);
    bool is_one = coefficient == 1;
    for (size_t i = 0; i < symbols_.size(); ++i) {
      for (int e = 0; e < exponents[i]; ++e) {
        term = is_one ? symbols_[i] : term * symbols_[i];
        is_one = false;
      }
    }
    sum = first ? term : sum + term;
    first = false;
  }
  return true_.emplace(size, sum).first->second;
}

Value Layouts::True32(const Polynomial& size) { return b_.Cast(True(size), DType::kI32); }

Value Layouts::Valid(const Axis& axis) {
  const std::vector<Polynomial> sizes = SizesOf(axis);
  if (const auto it = valid_.find(sizes); it != valid_.end()) return it->second;
  const Ints dims = Padded(sizes);
  if (NumElements(dims) > std::numeric_limits<int32_t>::max())
    Fail("padding", "fewer than 2^31 places", ToString(dims));
  Value valid;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].is_constant()) continue;
    Value within = b_.Lt(b_.Iota(dims, static_cast<int64_t>(i), DType::kI32), True32(sizes[i]));
    valid = valid.valid() ? b_.And(valid, within) : within;
  }
  return valid_.emplace(sizes, b_.Flatten(valid)).first->second;
}

Value Layouts::Valid(const Axes& axes, std::span<const int64_t> dims) {
  const Ints shape = PaddedDims(axes);
  Value valid;
  for (int64_t d : dims) {
    if (IsStatic(axes[d])) continue;
    Value along = b_.BroadcastInDim(Valid(axes[d]), shape, Ints{d});
    valid = valid.valid() ? b_.And(valid, along) : along;
  }
  return valid;
}

Value Layouts::Masked(const Laid& x, std::span<const int64_t> dims, Value fill) {
  Value valid = Valid(x.axes, dims);
  return valid.valid() ? b_.Select(valid, x.value, b_.Cast(fill, x.value.dtype())) : x.value;
}

// For each place of `target`, the place of the same element in `source`.
Value Layouts::PlacesOf(const Axis& target, const Axis& source) {
  const Ints dims = Padded(SizesOf(target));
  if (NumElements(dims) > std::numeric_limits<int32_t>::max())
    Fail("padding", "fewer than 2^31 places", ToString(dims));
  Value index = b_.ConstInt(0, DType::kI32);
  Polynomial stride = 1;
  for (size_t i = target.size(); i-- > 0;) {
    index = index + b_.Iota(dims, static_cast<int64_t>(i), DType::kI32) * True32(stride);
    stride = stride * target[i].size;
  }
  Value place = b_.ConstInt(0, DType::kI32);
  int64_t step = 1;
  for (size_t i = source.size(); i-- > 0;) {
    Value digit = index;
    if (i > 0) {
      Value size = b_.Max(True32(source[i].size), b_.ConstInt(1, DType::kI32));
      digit = b_.Rem(index, size);
      index = b_.Div(index, size);
    }
    place = place + digit * b_.ConstInt(step, DType::kI32);
    step *= Padded(source[i].size);
  }
  return b_.Flatten(b_.Clamp(b_.ConstInt(0, DType::kI32), place, b_.ConstInt(step - 1, DType::kI32)));
}

Laid Layouts::WithAxis(Laid x, int64_t dim, const Axis& axis) {
  if (SameFactors(x.axes[dim], axis)) return x;
  if (!IsUniform(x.axes[dim])) {
    Ints sizes = x.value.dims();
    GatherDims d;
    for (int64_t i = 0; i < x.value.rank(); ++i)
      if (i != dim) d.offset_dims.push_back(i);
    d.collapsed_slice_dims = d.start_index_map = {dim};
    d.index_vector_dim = 1;
    sizes[dim] = 1;
    Value places = PlacesOf(axis, x.axes[dim]);
    x.value = b_.Gather(x.value, places, d, sizes);
  }
  const bool uniform = IsUniform(x.axes[dim]);
  x.axes[dim] = axis;
  for (Factor& f : x.axes[dim]) f.uniform = uniform;
  return x;
}

Laid Layouts::WithAxes(Laid x, const Axes& axes) {
  for (size_t d = 0; d < axes.size(); ++d) x = WithAxis(std::move(x), static_cast<int64_t>(d), axes[d]);
  return x;
}

Laid Layouts::Linear(Laid x, int64_t dim) {
  return IsLinear(x.axes[dim]) && x.axes[dim].size() <= 1 ? x : WithAxis(x, dim, LinearAxis(SizeOf(x.axes[dim])));
}

namespace {

bool Finer(const Axis& a, const Axis& b) {
  if (IsUniform(a) != IsUniform(b)) return !IsUniform(a);
  return a.size() > b.size();
}

}  // namespace

Axes Layouts::Merge(std::span<Laid> xs) {
  Axes merged = xs[0].axes;
  for (size_t d = 0; d < merged.size(); ++d) {
    for (const Laid& x : xs) {
      if (Finer(x.axes[d], merged[d])) merged[d] = x.axes[d];
    }
    for (Laid& x : xs) {
      x = WithAxis(std::move(x), static_cast<int64_t>(d), merged[d]);
      for (size_t f = 0; f < merged[d].size(); ++f) merged[d][f].uniform &= x.axes[d][f].uniform;
    }
  }
  return merged;
}

Axis Layouts::MergeDims(Laid& a, int64_t da, Laid& b, int64_t db) {
  Axis merged = Finer(b.axes[db], a.axes[da]) ? b.axes[db] : a.axes[da];
  a = WithAxis(std::move(a), da, merged);
  b = WithAxis(std::move(b), db, merged);
  for (size_t f = 0; f < merged.size(); ++f) merged[f].uniform = a.axes[da][f].uniform && b.axes[db][f].uniform;
  return merged;
}

Laid Layouts::Reshape(Laid x, std::span<const Polynomial> sizes) {
  if (std::find(sizes.begin(), sizes.end(), Polynomial(0)) != sizes.end())
    return {b_.Reshape(x.value, Padded(sizes)), LinearAxes(sizes)};
  // Groups of dimensions that hold the same elements on both sides.
  Axes merged;  // per group, its factors as they lie
  Axes wanted;  // and as they have to
  Axes result;  // per dimension of the result
  size_t in = 0, out = 0;
  const size_t rank = x.axes.size();
  while (in < rank || out < sizes.size()) {
    Axis factors;
    Polynomial from = 1, to = 1;
    const size_t first = out;
    do {
      const int64_t from_size = Padded(from), to_size = Padded(to);
      if (out >= sizes.size() || (in < rank && from_size <= to_size)) {
        if (in >= rank) Fail("Reshape", "sizes that agree for every length", ToString(Padded(sizes)));
        from = from * SizeOf(x.axes[in]);
        factors.insert(factors.end(), x.axes[in].begin(), x.axes[in].end());
        ++in;
      } else {
        to = to * sizes[out++];
      }
    } while (from != to);
    while (in == rank && out < sizes.size()) {  // trailing ones
      to = to * sizes[out++];
      if (from != to) Fail("Reshape", "sizes that agree for every length", ToString(Padded(sizes)));
    }
    Dealer dealer(factors);
    Axes dealt;
    for (size_t d = first; d < out; ++d) {
      std::optional<Axis> axis = dealer.Deal(sizes[d]);
      if (!axis) break;
      dealt.push_back(std::move(*axis));
    }
    merged.push_back(factors);
    if (dealt.size() == out - first) {
      wanted.push_back(factors);
    } else {
      dealt.clear();
      wanted.emplace_back();
      for (size_t d = first; d < out; ++d) {
        dealt.push_back(LinearAxis(sizes[d]));
        wanted.back().insert(wanted.back().end(), dealt.back().begin(), dealt.back().end());
      }
    }
    result.insert(result.end(), dealt.begin(), dealt.end());
  }
  for (size_t g = 0; g < merged.size(); ++g) {
    if (SameFactors(merged[g], wanted[g])) continue;
    // The group as one dimension, its elements moved.
    x.value = b_.Reshape(x.value, PaddedDims(merged));
    x.axes = merged;
    x = WithAxis(std::move(x), static_cast<int64_t>(g), wanted[g]);
    merged[g] = wanted[g];
  }
  x.value = b_.Reshape(x.value, Padded(sizes));
  x.axes = std::move(result);
  return x;
}

}  // namespace tpu::hlo
