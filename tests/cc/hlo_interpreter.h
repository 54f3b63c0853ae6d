// Runs view plans on plain arrays, one loop per kind of step.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "hlo/view_plan.h"

namespace tpu::hlo {

struct Array {
  Ints dims;
  std::vector<int64_t> data;
  bool operator==(const Array&) const = default;
};

inline int64_t Count(const Ints& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

inline Ints RowMajor(const Ints& dims) {
  Ints strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i]) strides[i] = stride;
  return strides;
}

// Calls f(index) for every index below dims, in row-major order.
template <typename F>
void ForEachIndex(const Ints& dims, F f) {
  Ints index(dims.size(), 0);
  for (int64_t n = Count(dims); n > 0; --n) {
    f(index);
    for (size_t i = dims.size(); i-- > 0;) {
      if (++index[i] < dims[i]) break;
      index[i] = 0;
    }
  }
}

inline int64_t Dot(const Ints& a, const Ints& b) {
  int64_t sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a.at(i) * b.at(i);
  return sum;
}

inline void Require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

// For every element of the step's result, the flat element of the operand that it is, or -1 for padding.
inline std::vector<int64_t> Sources(const Ints& dims, const ViewStep& step) {
  using Kind = ViewStep::Kind;
  const Ints strides = RowMajor(dims);
  const size_t rank = dims.size();
  std::vector<int64_t> sources;
  if (step.kind == Kind::kReshape) Require(Count(dims) == Count(step.dims), "reshape: numel");
  if (step.kind == Kind::kSlice) {
    Require(step.dims.size() == rank, "slice: rank");
    for (size_t i = 0; i < rank; ++i) {
      Require(step.starts.at(i) >= 0 && step.starts[i] < step.limits.at(i) && step.limits[i] <= dims[i] &&
                  step.strides.at(i) > 0,
              "slice: range");
      Require(step.dims[i] == (step.limits[i] - step.starts[i] + step.strides[i] - 1) / step.strides[i], "slice: dims");
    }
  }
  if (step.kind == Kind::kTranspose) {
    Require(step.axes.size() == rank, "transpose: rank");
    for (size_t i = 0; i < rank; ++i) Require(dims.at(step.axes[i]) == step.dims.at(i), "transpose: dims");
  }
  if (step.kind == Kind::kBroadcast) {
    Require(step.axes.size() == rank, "broadcast: rank");
    for (size_t i = 0; i < rank; ++i) {
      Require(i == 0 || step.axes[i] > step.axes[i - 1], "broadcast: order");
      Require(dims[i] == 1 || dims[i] == step.dims.at(step.axes[i]), "broadcast: dims");
    }
  }
  if (step.kind == Kind::kPad) {
    Require(step.dims.size() == rank && rank > 0 && step.dims.back() > dims.back(), "pad: dims");
    for (size_t i = 0; i + 1 < rank; ++i) Require(step.dims[i] == dims[i], "pad: dims");
  }
  if (step.kind == Kind::kUnfold) {
    Require(rank >= 2 && step.dims.size() == rank && step.pieces > 1, "unfold: rank");
    Require(dims[rank - 2] == step.dims[rank - 2] + step.pieces - 1, "unfold: rows");
    Require(step.dims.back() == dims.back() * step.pieces, "unfold: width");
  }
  int64_t position = 0;
  ForEachIndex(step.dims, [&](const Ints& index) {
    int64_t source = 0;
    switch (step.kind) {
      case Kind::kReshape: source = position; break;
      case Kind::kSlice:
        for (size_t i = 0; i < rank; ++i) source += (step.starts[i] + index[i] * step.strides[i]) * strides[i];
        break;
      case Kind::kPad: source = index.back() < dims.back() ? Dot(index, strides) : -1; break;
      case Kind::kUnfold: {
        Ints from = index;
        from[rank - 2] += index.back() / dims.back();
        from.back() %= dims.back();
        source = Dot(from, strides);
        break;
      }
      case Kind::kGather: {
        size_t outer = rank - 1, n = step.index_sizes.size();
        Require(index.size() == outer + n + (step.window > 0 ? 1 : 0), "gather: rank");
        int64_t start = step.offset;
        for (size_t i = 0; i < n; ++i) start += index[outer + i] * step.index_strides.at(i);
        Require(start >= 0 && start + std::max<int64_t>(step.window, 1) <= dims.back(), "gather: range");
        source = start + (step.window > 0 ? index.back() : 0);
        for (size_t i = 0; i < outer; ++i) source += index[i] * strides[i];
        break;
      }
      case Kind::kTranspose:
        for (size_t i = 0; i < rank; ++i) source += index[i] * strides[step.axes[i]];
        break;
      case Kind::kBroadcast:
        for (size_t i = 0; i < rank; ++i) source += dims[i] == 1 ? 0 : index[step.axes[i]] * strides[i];
        break;
    }
    sources.push_back(source);
    ++position;
  });
  return sources;
}

inline Array Apply(const Array& x, const ViewStep& step) {
  Array result{step.dims, {}};
  for (int64_t source : Sources(x.dims, step)) result.data.push_back(source < 0 ? 0 : x.data.at(source));
  return result;
}

inline Array Put(const Array& x, const Array& update, const ViewStep& step) {
  using Kind = ViewStep::Kind;
  Require(
      step.kind == Kind::kReshape || step.kind == Kind::kSlice || step.kind == Kind::kPad || step.kind == Kind::kGather,
      "put: kind");
  Require(update.dims == step.dims, "put: dims");
  Array result = x;
  size_t position = 0;
  for (int64_t source : Sources(x.dims, step)) {
    if (source >= 0) result.data.at(source) = update.data[position];
    ++position;
  }
  return result;
}

inline Array Run(Array x, const std::vector<ViewStep>& steps) {
  for (const ViewStep& step : steps) x = Apply(x, step);
  return x;
}

inline Array RunWrite(Array base, Array update, const WritePlan& plan) {
  std::vector<Array> kept;
  for (const ViewStep& step : plan.base) {
    kept.push_back(base);
    base = Apply(base, step);
  }
  update = Run(update, plan.update);
  Require(update.dims == base.dims, "write: dims");
  for (size_t i = plan.base.size(); i-- > 0;) update = Put(kept[i], update, plan.base[i]);
  return update;
}

}  // namespace tpu::hlo
