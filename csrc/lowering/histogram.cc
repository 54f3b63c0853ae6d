// Counting into bins.
#include <cmath>

#include "lowering/reduction.h"
#include "lowering/search.h"

namespace tpu::lowering {
namespace {

// sum of weights[i] over bin[i] == k, for k < bins; bins outside count nowhere. Vectors; comparing each element with
// each bin is one fused reduction, and beats a scatter until there are many bins.
Value CountInto(Builder& b, Value bin, Value weights, int64_t bins) {
  constexpr int64_t kFewBins = 512;
  bin = b.Cast(bin, DType::kI64);
  if (bins <= kFewBins) {
    Value hit = b.Eq(b.Unsqueeze(bin, 1), b.Unsqueeze(b.Iota(bins), 0));
    return b.Sum(b.Select(hit, b.Unsqueeze(weights, 1), 0.0), Ints{0}, false);
  }
  hlo::ScatterDims dims{.update_window_dims = {},
                        .inserted_window_dims = {0},
                        .input_batching_dims = {},
                        .scatter_indices_batching_dims = {},
                        .scatter_dims_to_operand_dims = {0},
                        .index_vector_dim = 1};
  return b.Scatter(b.Full(Ints{bins}, 0.0, weights.dtype()), b.Unsqueeze(bin, 1), weights, dims,
                   [](Builder&, Value s, Value t) { return s + t; });
}

// Bin floor((x - min) bins / (max - min)) within [min, max], the last one closed; equal bounds stand for those of the
// data, and if these are equal too they are moved apart. CUDA's formula (CPU divides first).
Value Histc(Builder& b, Value x, int64_t bins, Value min, Value max) {
  x = b.Flatten(x);
  if (x.numel() == 0) return b.Zeros(b.Expected());
  if (!IsFloat(x.dtype())) x = b.Cast(x, DType::kI64);
  min = b.Cast(min, x.dtype());
  max = b.Cast(max, x.dtype());
  Value from_data = b.Eq(min, max);
  min = b.Select(from_data, b.Min(x, Ints{}, false), min);
  max = b.Select(from_data, b.Max(x, Ints{}, false), max);
  Value flat = b.Eq(min, max);
  min = b.Select(flat, min - 1.0, min);
  max = b.Select(flat, max + 1.0, max);
  Value inside = b.And(b.Ge(x, min), b.Le(x, max));
  Value scaled = b.Select(inside, (x - min) * static_cast<double>(bins) / (max - min), 0.0);
  Value bin = b.Min(b.Cast(scaled, DType::kI64), static_cast<double>(bins - 1));
  return CountInto(b, bin, b.Cast(inside, DType::kI32), bins);
}
LOWER("histc", Histc);

// Counts of points [n, d] in the cells of d sequences of edges; the last cell of each is closed.
Value CountCells(Builder& b, Value points, const std::vector<Value>& edges, std::optional<Value> weight, bool density) {
  int64_t cells = 1;
  Ints shape;
  Value cell = b.Full(Ints{points.dim(0)}, 0.0, DType::kI64), inside;
  for (size_t d = 0; d < edges.size(); ++d) {
    int64_t bins = edges[d].dim(0) - 1, dim = static_cast<int64_t>(d);
    Value x = b.Reshape(b.SliceDim(points, 1, dim, dim + 1), Ints{points.dim(0)});
    Value lowest = b.SliceDim(edges[d], 0, 0, 1), highest = b.SliceDim(edges[d], 0, bins, bins + 1);
    Value here = b.And(b.Ge(x, lowest), b.Le(x, highest));
    inside = d == 0 ? here : b.And(inside, here);
    Value found = b.Cast(SearchSorted(b, edges[d], x, /*right=*/true), DType::kI64);
    Value bin = b.Min(found - 1.0, static_cast<double>(bins - 1));
    cell = cell * static_cast<double>(bins) + bin;
    cells *= bins;
    shape.push_back(bins);
  }
  Value weights = weight ? b.Cast(b.Flatten(*weight), points.dtype()) : b.Full(cell.dims(), 1.0, points.dtype());
  Value counts = CountInto(b, b.Select(inside, cell, -1.0), b.Select(inside, weights, 0.0), cells);
  counts = b.Reshape(counts, shape);
  if (!density) return counts;
  counts = counts / b.Sum(counts, Ints{}, false);
  for (size_t d = 0; d < edges.size(); ++d) {
    int64_t bins = shape[d];
    Ints widths(shape.size(), 1);
    widths[d] = bins;
    counts = counts / b.Reshape(b.SliceDim(edges[d], 0, 1, bins + 1) - b.SliceDim(edges[d], 0, 0, bins), widths);
  }
  return counts;
}

// bins + 1 evenly spaced edges over [low, high], counted from the nearer end as torch.linspace does.
Value Linspace(Builder& b, Value low, Value high, int64_t bins) {
  Value index = b.Iota(bins + 1, low.dtype());
  Value step = (high - low) / static_cast<double>(bins);
  const int64_t nearer_low = (bins + 1) / 2;
  return b.Select(b.Lt(index, static_cast<double>(nearer_low)), low + step * index,
                  high - step * (static_cast<double>(bins) - index));
}

// The outer edges of each coordinate of points [n, d]: as given, else of the data; an empty range is widened by a half.
std::vector<Value> EvenEdges(Builder& b, Value points, const Ints& bins,
                             const std::optional<std::vector<double>>& range) {
  std::vector<Value> edges;
  for (int64_t d = 0; d < static_cast<int64_t>(bins.size()); ++d) {
    Value x = b.SliceDim(points, 1, d, d + 1);
    bool no_data = x.numel() == 0;
    Value low = range || no_data ? b.Const(range ? (*range)[2 * d] : 0.0, x.dtype()) : b.Min(x, Ints{}, false);
    Value high = range || no_data ? b.Const(range ? (*range)[2 * d + 1] : 1.0, x.dtype()) : b.Max(x, Ints{}, false);
    Value flat = b.Eq(low, high);
    edges.push_back(Linspace(b, b.Select(flat, low - 0.5, low), b.Select(flat, high + 0.5, high), bins[d]));
  }
  return edges;
}

Value AsPoints(Builder& b, Value x, int64_t coordinates) {
  return b.Reshape(x, Ints{x.numel() / coordinates, coordinates});
}

std::pair<Value, Value> HistogramOfEdges(Builder& b, Value x, Value edges, std::optional<Value> weight, bool density) {
  return {CountCells(b, AsPoints(b, x, 1), {edges}, weight, density), edges};
}
LOWER("histogram.bins_tensor", HistogramOfEdges);

std::pair<Value, Value> Histogram(Builder& b, Value x, int64_t bins, std::optional<std::vector<double>> range,
                                  std::optional<Value> weight, bool density) {
  return HistogramOfEdges(b, x, EvenEdges(b, AsPoints(b, x, 1), {bins}, range)[0], weight, density);
}
LOWER("histogram.bin_ct", Histogram);

std::vector<Value> HistogramddEdges(Builder& b, Value x, Ints bins, std::optional<std::vector<double>> range,
                                    std::optional<Value> /*weight*/, bool /*density*/) {
  return EvenEdges(b, AsPoints(b, x, x.dim(-1)), bins, range);
}
LOWER("_histogramdd_bin_edges", HistogramddEdges);

Value HistogramddOfCounts(Builder& b, Value x, Ints bins, std::optional<std::vector<double>> range,
                          std::optional<Value> weight, bool density) {
  Value points = AsPoints(b, x, x.dim(-1));
  return CountCells(b, points, EvenEdges(b, points, bins, range), weight, density);
}
LOWER("_histogramdd_from_bin_cts", HistogramddOfCounts);

Value HistogramddOfEdges(Builder& b, Value x, std::vector<Value> edges, std::optional<Value> weight, bool density) {
  return CountCells(b, AsPoints(b, x, x.dim(-1)), edges, weight, density);
}
LOWER("_histogramdd_from_bin_tensors", HistogramddOfEdges);

}  // namespace
}  // namespace tpu::lowering
