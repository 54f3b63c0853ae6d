// Views for tests: built as PyTorch's view operations build them, or at random; and what they must read and write.
#pragma once

#include <algorithm>
#include <random>

#include "hlo_interpreter.h"

namespace tpu::hlo {

struct Geometry {
  Ints base_dims;
  View view;

  explicit Geometry(Ints dims) : base_dims(dims), view{dims, RowMajor(dims), 0} {}
  Geometry(Ints dims, View v) : base_dims(std::move(dims)), view(std::move(v)) {}

  Geometry Permute(const Ints& order) const {
    Geometry g = *this;
    for (size_t i = 0; i < order.size(); ++i) {
      g.view.sizes[i] = view.sizes.at(order[i]);
      g.view.strides[i] = view.strides.at(order[i]);
    }
    return g;
  }
  Geometry Slice(int64_t dim, int64_t start, int64_t limit, int64_t step = 1) const {
    Geometry g = *this;
    g.view.offset += start * view.strides.at(dim);
    g.view.sizes[dim] = limit > start ? (limit - start + step - 1) / step : 0;
    g.view.strides[dim] *= step;
    return g;
  }
  Geometry Select(int64_t dim, int64_t i) const {
    Geometry g = *this;
    g.view.offset += i * view.strides.at(dim);
    g.view.sizes.erase(g.view.sizes.begin() + dim);
    g.view.strides.erase(g.view.strides.begin() + dim);
    return g;
  }
  Geometry Insert(int64_t dim, int64_t size, int64_t stride) const {
    Geometry g = *this;
    g.view.sizes.insert(g.view.sizes.begin() + dim, size);
    g.view.strides.insert(g.view.strides.begin() + dim, stride);
    return g;
  }
  Geometry Unsqueeze(int64_t dim) const { return Insert(dim, 1, 1); }
  Geometry Expand(int64_t dim, int64_t size) const {
    Geometry g = *this;
    g.view.sizes.at(dim) = size;
    g.view.strides.at(dim) = 0;
    return g;
  }
  Geometry Unfold(int64_t dim, int64_t size, int64_t step) const {
    Geometry g = *this;
    g.view.sizes.at(dim) = (view.sizes[dim] - size) / step + 1;
    g.view.strides.at(dim) *= step;
    g.view.sizes.push_back(size);
    g.view.strides.push_back(view.strides[dim]);
    return g;
  }
  Geometry Diagonal(int64_t a, int64_t b) const {
    Geometry g = *this;
    g.view.sizes.push_back(std::min(view.sizes.at(a), view.sizes.at(b)));
    g.view.strides.push_back(view.strides[a] + view.strides[b]);
    for (int64_t d : {std::max(a, b), std::min(a, b)}) {
      g.view.sizes.erase(g.view.sizes.begin() + d);
      g.view.strides.erase(g.view.strides.begin() + d);
    }
    return g;
  }
  int64_t numel() const { return Count(base_dims); }
};

inline std::string Show(const Geometry& g) {
  auto list = [](const Ints& v) {
    std::string s = "[";
    for (int64_t i : v) s += (s.size() > 1 ? "," : "") + std::to_string(i);
    return s + "]";
  };
  return list(g.base_dims) + " as_strided " + list(g.view.sizes) + " " + list(g.view.strides) + " " +
         std::to_string(g.view.offset);
}

class GeometryMaker {
 public:
  explicit GeometryMaker(uint32_t seed) : random_(seed) {}

  // A few view operations after another, or any sizes and strides at all, which may overlap and pass the base's end.
  Geometry Next() { return Pick(0, 2) > 0 ? Operations() : Strided(); }
  int64_t Pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

 private:
  Ints Dims(int64_t max_rank, int64_t max_size) {
    Ints dims(Pick(0, max_rank));
    for (int64_t& d : dims) d = Pick(0, 40) == 0 ? 0 : Pick(1, max_size);
    return dims;
  }

  Geometry Operations() {
    Geometry g(Dims(4, 7));
    for (int64_t n = Pick(0, 5); n > 0; --n) {
      int64_t rank = static_cast<int64_t>(g.view.sizes.size());
      int64_t dim = Pick(0, std::max<int64_t>(0, rank - 1));
      if (rank == 0 || (Pick(0, 9) == 0 && rank < 6)) {
        g = g.Unsqueeze(Pick(0, rank));
        continue;
      }
      int64_t size = g.view.sizes[dim];
      switch (Pick(0, 6)) {
        case 0: {
          Ints order(rank);
          for (int64_t i = 0; i < rank; ++i) order[i] = i;
          std::shuffle(order.begin(), order.end(), random_);
          g = g.Permute(order);
          break;
        }
        case 1:
        case 2: {
          int64_t start = Pick(0, size);
          g = g.Slice(dim, start, Pick(start, size), Pick(1, 3));
          break;
        }
        case 3:
          if (size > 0) g = g.Select(dim, Pick(0, size - 1));
          break;
        case 4:
          if (size == 1) g = g.Expand(dim, Pick(1, 4));
          break;
        case 5:
          if (int64_t width = Pick(1, 4); width <= size && rank < 6) g = g.Unfold(dim, width, Pick(1, 4));
          break;
        case 6:
          if (int64_t other = Pick(0, rank - 1); other != dim) g = g.Diagonal(dim, other);
          break;
      }
    }
    if (Pick(0, 3) == 0) g.base_dims = {g.numel()};
    return g;
  }

  Geometry Strided() {
    View view{Dims(4, 5), {}, Pick(0, 1) * Pick(0, 12)};
    static constexpr int64_t kStrides[] = {0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16, 20, 24, 30, 40, 60};
    for (size_t i = 0; i < view.sizes.size(); ++i) {
      view.strides.push_back(kStrides[Pick(0, Pick(0, 1) ? 6 : std::size(kStrides) - 1)]);
    }
    Ints dims = Dims(4, 6);
    int64_t extent = 1 + view.offset;
    for (size_t i = 0; i < view.sizes.size(); ++i) extent += std::max<int64_t>(0, view.sizes[i] - 1) * view.strides[i];
    // Mostly a base that holds the view, as tight as can be or with rows to spare.
    if (Pick(0, 3) > 0 && Count(dims) < extent) {
      if (Pick(0, 1)) {
        dims = {extent + Pick(0, 5)};
      } else {
        int64_t columns = Pick(1, 12);
        dims = {(extent + columns - 1) / columns + Pick(0, 1), columns};
      }
    }
    return {dims, view};
  }

  std::mt19937 random_;
};

inline Array Iota(const Ints& dims, int64_t first) {
  Array x{dims, {}};
  for (int64_t i = 0; i < Count(dims); ++i) x.data.push_back(first + i);
  return x;
}

inline Array ExpectedRead(const Array& base, const View& view) {
  Array result{view.sizes, {}};
  ForEachIndex(view.sizes, [&](const Ints& index) {
    int64_t at = view.offset + Dot(index, view.strides);
    result.data.push_back(at < static_cast<int64_t>(base.data.size()) ? base.data[at] : 0);
  });
  return result;
}

// `result` is `base` with the view's elements replaced; where several meet, by any of them.
inline bool IsWrite(const Array& base, const View& view, const Array& update, const Array& result) {
  std::vector<std::vector<int64_t>> allowed(base.data.size());
  int64_t position = 0;
  ForEachIndex(view.sizes, [&](const Ints& index) {
    allowed.at(view.offset + Dot(index, view.strides)).push_back(update.data[position++]);
  });
  if (result.data.size() != base.data.size()) return false;
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (allowed[i].empty() ? result.data[i] != base.data[i]
                           : std::count(allowed[i].begin(), allowed[i].end(), result.data[i]) == 0) {
      return false;
    }
  }
  return true;
}

}  // namespace tpu::hlo
