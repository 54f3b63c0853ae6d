// Tables of rows looked up by index, and their gradients.
#include <limits>

#include "lowering/indexing.h"

namespace tpu::lowering {
namespace {

Value Embedding(Builder& b, Value weight, Value indices, int64_t /*padding_idx*/, bool /*scale_grad_by_freq*/,
                bool /*sparse*/) {
  b.CheckIndex(indices, 0, 0, weight.dim(0));
  Ints out = indices.dims();
  out.insert(out.end(), weight.dims().begin() + 1, weight.dims().end());
  if (hlo::NumElements(out) == 0) return b.Zeros({weight.dtype(), out});
  return b.Reshape(SelectRows(b, weight, 0, b.Flatten(indices)), out);
}
LOWER("embedding", Embedding, kExact);

// How often each of `size` rows is named by the 1-D `indices`.
Value Frequencies(Builder& b, Value indices, int64_t size) {
  return ScatterRows(b, b.Full(Ints{size}, 0.0, DType::kI32), 0, indices, b.Full(indices.dims(), 1.0, DType::kI32),
                     AddUpdate);
}

// Sums `rows` into a table of `num_weights`; the rows of `padding_idx` get nothing.
Value SumRows(Builder& b, Value rows, Value indices, int64_t num_weights, int64_t padding_idx,
              bool scale_grad_by_freq) {
  Ints table{num_weights, rows.dim(1)};
  if (rows.numel() == 0 || num_weights == 0) return b.Zeros({rows.dtype(), table});
  if (scale_grad_by_freq) {
    Value counts = SelectRows(b, Frequencies(b, indices, num_weights), 0, indices);
    rows = b.Div(rows, b.Unsqueeze(b.Cast(counts, rows.dtype()), 1));
  }
  Value at = Narrow(b, indices, num_weights);
  // An index outside the table is dropped.
  if (padding_idx >= 0) {
    Value outside = b.ConstInt(num_weights, at.dtype());
    at = b.Select(b.Eq(at, b.ConstInt(padding_idx, at.dtype())), outside, at);
  }
  return ScatterRows(b, b.Zeros({rows.dtype(), table}), 0, at, rows, AddUpdate);
}

Value EmbeddingDenseBackward(Builder& b, Value grad, Value indices, int64_t num_weights, int64_t padding_idx,
                             bool scale_grad_by_freq) {
  b.CheckIndex(indices, 0, 0, num_weights);
  int64_t width = grad.dims().back();
  Value rows = b.Reshape(grad, Ints{indices.numel(), width});
  return SumRows(b, rows, b.Flatten(indices), num_weights, padding_idx, scale_grad_by_freq);
}
LOWER("embedding_dense_backward", EmbeddingDenseBackward);

// Scales the rows that `indices` name down to `max_norm` where their norm is larger.
Value EmbeddingRenorm(Builder& b, Value weight, Value indices, double max_norm, double norm_type) {
  if (indices.numel() == 0 || weight.numel() == 0) return weight;
  Value magnitude = b.Abs(weight), norm;
  if (norm_type == 2) {
    norm = b.Sqrt(b.Sum(b.Square(magnitude), 1));
  } else if (norm_type == std::numeric_limits<double>::infinity()) {
    norm = b.Max(magnitude, Ints{1});
  } else {
    norm = b.Pow(b.Sum(b.Pow(magnitude, b.ConstLike(norm_type, weight)), 1), b.ConstLike(1 / norm_type, weight));
  }
  Value named = b.Unsqueeze(b.Gt(Frequencies(b, b.Flatten(indices), weight.dim(0)), 0.0), 1);
  Value scaled = b.Mul(weight, max_norm / (norm + 1e-7));
  return b.Select(b.And(named, b.Gt(norm, max_norm)), scaled, weight);
}
LOWER("embedding_renorm", EmbeddingRenorm);

enum BagMode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

// The bag of each of `count` positions: the number of offsets up to it, less one.
Value BagOfPosition(Builder& b, Value offsets, int64_t num_bags, int64_t count) {
  Value starts = ScatterRows(b, b.Full(Ints{count}, 0.0, DType::kI32), 0, b.SliceDim(offsets, 0, 0, num_bags),
                             b.Full(Ints{num_bags}, 1.0, DType::kI32), AddUpdate);
  return InclusiveSum(b, starts) - 1.0;
}

Value NotPadding(Builder& b, Value indices, int64_t padding_idx) {
  return b.Ne(indices, b.ConstInt(padding_idx, indices.dtype()));
}

// {sums, means or maxima; bag of each position; size of each bag; for maxima, the row that each came from}. The shapes
// of the last three are CUDA's. An empty bag is zero.
Results EmbeddingBag(Builder& b, Value weight, Value indices, Value offsets, bool /*scale_grad_by_freq*/, int64_t mode,
                     bool /*sparse*/, std::optional<Value> per_sample_weights, bool include_last_offset,
                     int64_t padding_idx) {
  int64_t count = indices.dim(0), num_bags = offsets.dim(0) - (include_last_offset ? 1 : 0), width = weight.dim(1);
  DType index_dtype = indices.dtype();
  Type table{weight.dtype(), Ints{num_bags, width}};
  Value no_indices = b.Zeros({index_dtype, Ints{0}});
  if (count == 0 || num_bags == 0 || width == 0) {
    Value sources = mode == kMax ? b.Zeros({index_dtype, table.dims}) : no_indices;
    return {b.Zeros(table), b.Zeros({index_dtype, Ints{count}}), b.Zeros({index_dtype, offsets.dims()}), sources};
  }
  b.CheckIndex(indices, 0, 0, weight.dim(0));
  Value bag = BagOfPosition(b, offsets, num_bags, count);
  Value counted = NotPadding(b, indices, padding_idx);
  Value at = b.Select(counted, bag, b.ConstInt(num_bags, DType::kI32));
  Value sizes =
      ScatterRows(b, b.Full(Ints{num_bags}, 0.0, DType::kI32), 0, at, b.Full(Ints{count}, 1.0, DType::kI32), AddUpdate);
  Value rows = SelectRows(b, weight, 0, indices);
  if (per_sample_weights) rows = b.Mul(rows, b.Unsqueeze(b.Cast(*per_sample_weights, rows.dtype()), 1));

  Value pooled, sources = no_indices;
  Value filled = b.Unsqueeze(b.Gt(sizes, 0.0), 1);
  if (mode == kMax) {
    auto larger = [](Builder& b, Value x, Value y) { return b.Max(x, y); };
    auto smaller = [](Builder& b, Value x, Value y) { return b.Min(x, y); };
    Value lowest = b.Full(table.dims, Lowest(b, table.dtype));
    Value maxima = ScatterRows(b, lowest, 0, at, rows, larger);
    // The first position that attains the maximum.
    Value attains = b.Eq(rows, SelectRows(b, maxima, 0, b.Max(bag, 0.0)));
    Value position = b.Select(attains, IotaAlong(b, 2, 0, count), b.ConstInt(count - 1, DType::kI32));
    Value first = ScatterRows(b, b.Full(table.dims, b.ConstInt(count - 1, DType::kI32)), 0, at, position, smaller);
    Value from = b.Reshape(SelectRows(b, indices, 0, b.Flatten(first)), table.dims);
    pooled = b.Select(filled, maxima, 0.0);
    sources = b.Select(filled, from, 0.0);
  } else {
    pooled = ScatterRows(b, b.Zeros(table), 0, at, rows, AddUpdate);
    if (mode == kMean) pooled = b.Div(pooled, b.Unsqueeze(b.Cast(b.Max(sizes, 1.0), table.dtype), 1));
  }
  Ints tail{offsets.dim(0) - num_bags};
  Value bag_size = b.Pad(b.Cast(sizes, index_dtype), b.ConstInt(0, index_dtype), Ints{0}, tail);
  return {pooled, b.Cast(bag, index_dtype), bag_size, sources};
}
LOWER("_embedding_bag", EmbeddingBag);
LOWER("_embedding_bag_forward_only", EmbeddingBag);

Value EmbeddingBagDenseBackward(Builder& b, Value grad, Value indices, Value offset2bag, Value bag_size,
                                Value maximum_indices, int64_t num_weights, bool scale_grad_by_freq, int64_t mode,
                                std::optional<Value> per_sample_weights, int64_t padding_idx) {
  int64_t width = grad.dim(1), count = indices.dim(0);
  if (count == 0 || grad.numel() == 0) return b.Zeros({grad.dtype(), Ints{num_weights, width}});
  if (mode == kMax) {
    // One row of the table for each bag and column.
    Value filled = b.Unsqueeze(b.Gt(b.SliceDim(bag_size, 0, 0, grad.dim(0)), 0.0), 1);
    Value updates = b.Select(filled, grad, 0.0);
    return ScatterAlong(b, b.Zeros({grad.dtype(), Ints{num_weights, width}}), 0, maximum_indices, updates, AddUpdate);
  }
  if (mode == kMean) {
    Value sizes = b.Max(b.SliceDim(bag_size, 0, 0, grad.dim(0)), 1.0);
    grad = b.Div(grad, b.Unsqueeze(b.Cast(sizes, grad.dtype()), 1));
  }
  Value rows = SelectRows(b, grad, 0, offset2bag);
  if (per_sample_weights) rows = b.Mul(rows, b.Unsqueeze(b.Cast(*per_sample_weights, rows.dtype()), 1));
  return SumRows(b, rows, indices, num_weights, padding_idx, scale_grad_by_freq);
}
LOWER("_embedding_bag_dense_backward", EmbeddingBagDenseBackward);

// CPU's forward may leave offset2bag out.
Value BagsOr(Builder& b, Value offset2bag, Value offsets, Value indices) {
  if (offset2bag.numel() == indices.numel() || indices.numel() == 0) return offset2bag;
  return BagOfPosition(b, offsets, offsets.dim(0), indices.dim(0));
}

Value EmbeddingBagBackward(Builder& b, Value grad, Value indices, Value offsets, Value offset2bag, Value bag_size,
                           Value maximum_indices, int64_t num_weights, bool scale_grad_by_freq, int64_t mode,
                           bool /*sparse*/, std::optional<Value> per_sample_weights, int64_t padding_idx) {
  return EmbeddingBagDenseBackward(b, grad, indices, BagsOr(b, offset2bag, offsets, indices), bag_size, maximum_indices,
                                   num_weights, scale_grad_by_freq, mode, per_sample_weights, padding_idx);
}
LOWER("_embedding_bag_backward", EmbeddingBagBackward);

Value EmbeddingBagPerSampleWeightsBackward(Builder& b, Value grad, Value weight, Value indices, Value offsets,
                                           Value offset2bag, int64_t /*mode*/, int64_t padding_idx) {
  if (indices.numel() == 0) return b.Zeros({grad.dtype(), indices.dims()});
  Value bag = BagsOr(b, offset2bag, offsets, indices);
  Value products = b.Mul(SelectRows(b, grad, 0, bag), SelectRows(b, weight, 0, indices));
  return b.Select(NotPadding(b, indices, padding_idx), b.Sum(products, Ints{1}, false), 0.0);
}
LOWER("_embedding_bag_per_sample_weights_backward", EmbeddingBagPerSampleWeightsBackward);

}  // namespace
}  // namespace tpu::lowering
