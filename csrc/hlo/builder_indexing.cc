// Gather, scatter, and debug mode's index checks.
#include <algorithm>
#include <limits>

#include "hlo/builder_text.h"

namespace tpu::hlo {

namespace {

bool Contains(const Ints& list, int64_t value) { return std::find(list.begin(), list.end(), value) != list.end(); }

// Index dimensions without the one that holds the index vectors.
Ints BatchDims(std::string_view op, Value indices, int64_t index_vector_dim, size_t vector_size) {
  if (!IsInteger(indices.dtype())) Fail(op, "integer indices", ToString(indices.type()));
  if (index_vector_dim < 0 || index_vector_dim > indices.rank())
    Fail(op, "an index_vector_dim of at most " + std::to_string(indices.rank()), std::to_string(index_vector_dim));
  int64_t found = index_vector_dim == indices.rank() ? 1 : indices.dims()[index_vector_dim];
  if (found != static_cast<int64_t>(vector_size))
    Fail(op, "index vectors of " + std::to_string(vector_size), std::to_string(found));
  Ints dims = indices.dims();
  if (index_vector_dim < indices.rank()) dims.erase(dims.begin() + index_vector_dim);
  return dims;
}

// Narrow indices are cheaper on a TPU.
Value NarrowIndex(Builder& b, Value index, int64_t size) {
  return b.Cast(index, size <= std::numeric_limits<int32_t>::max() ? DType::kI32 : DType::kI64);
}

}  // namespace

Value Builder::Gather(Value x, Value indices, const GatherDims& d, std::span<const int64_t> slice_sizes) {
  if (static_cast<int64_t>(slice_sizes.size()) != x.rank())
    Fail("Gather", "one slice size per dimension of " + ToString(x.type()), ToString(slice_sizes));
  Ints batch = BatchDims("Gather", indices, d.index_vector_dim, d.start_index_map.size()), window;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (slice_sizes[i] < 0 || slice_sizes[i] > x.dims()[i])
      Fail("Gather", "slice sizes within " + ToString(x.type()), ToString(slice_sizes));
    if (!Contains(d.collapsed_slice_dims, i) && !Contains(d.operand_batching_dims, i)) window.push_back(slice_sizes[i]);
  }
  if (window.size() != d.offset_dims.size())
    Fail("Gather", std::to_string(window.size()) + " offset dimensions", ToString(d.offset_dims));
  Type type{x.dtype(), {}};
  size_t next_window = 0, next_batch = 0;
  for (size_t i = 0; i < window.size() + batch.size(); ++i) {
    bool offset = Contains(d.offset_dims, static_cast<int64_t>(i));
    if (!offset && next_batch == batch.size())
      Fail("Gather", "offset dimensions within the result's rank", ToString(d.offset_dims));
    type.dims.push_back(offset ? window.at(next_window++) : batch[next_batch++]);
  }
  Value operands[] = {x, indices};
  Text text(*this, "\"stablehlo.gather\"(");
  text.Values(operands) << ") <{dimension_numbers = #stablehlo.gather<offset_dims = " << d.offset_dims
                        << ", collapsed_slice_dims = " << d.collapsed_slice_dims
                        << ", operand_batching_dims = " << d.operand_batching_dims
                        << ", start_indices_batching_dims = " << d.start_indices_batching_dims
                        << ", start_index_map = " << d.start_index_map << ", index_vector_dim = " << d.index_vector_dim
                        << ">, indices_are_sorted = " << d.indices_are_sorted << ", slice_sizes = ";
  text.Array(slice_sizes) << "}>";
  text.Signature(operands, type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::Scatter(Value x, Value indices, Value updates, const ScatterDims& dims, const Combine& combine) {
  return Scatter(std::span(&x, 1), indices, std::span(&updates, 1), dims,
                 [&](Builder& b, std::span<const Value> v) { return std::vector<Value>{combine(b, v[0], v[1])}; })[0];
}

std::vector<Value> Builder::Scatter(std::span<const Value> xs, Value indices, std::span<const Value> updates,
                                    const ScatterDims& d, const Body& body) {
  if (xs.empty() || xs.size() != updates.size())
    Fail("Scatter", "as many updates as arrays", std::to_string(updates.size()) + " and " + std::to_string(xs.size()));
  Ints batch = BatchDims("Scatter", indices, d.index_vector_dim, d.scatter_dims_to_operand_dims.size());
  std::vector<Value> operands(xs.begin(), xs.end());
  operands.push_back(indices);
  std::vector<Type> results, scalars, arguments;
  for (size_t i = 0; i < xs.size(); ++i) {
    if (xs[i].dims() != xs[0].dims())
      Fail("Scatter", "arrays of one shape", ToString(xs[0].type()) + " and " + ToString(xs[i].type()));
    Value update = Cast(updates[i], xs[i].dtype());
    if (update.rank() != static_cast<int64_t>(batch.size() + d.update_window_dims.size()))
      Fail("Scatter", "updates of rank " + std::to_string(batch.size() + d.update_window_dims.size()),
           ToString(update.type()));
    operands.push_back(update);
    results.push_back(xs[i].type());
    scalars.push_back({xs[i].dtype(), {}});
  }
  arguments = scalars;
  arguments.insert(arguments.end(), scalars.begin(), scalars.end());
  Text text(*this, "\"stablehlo.scatter\"(");
  text.Values(operands) << ") <{indices_are_sorted = " << d.indices_are_sorted
                        << ", scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = "
                        << d.update_window_dims << ", inserted_window_dims = " << d.inserted_window_dims
                        << ", input_batching_dims = " << d.input_batching_dims
                        << ", scatter_indices_batching_dims = " << d.scatter_indices_batching_dims
                        << ", scatter_dims_to_operand_dims = " << d.scatter_dims_to_operand_dims
                        << ", index_vector_dim = " << d.index_vector_dim << ">, unique_indices = " << d.unique_indices
                        << "}> (";
  AppendRegion(text, "Scatter", arguments, scalars, false,
               [&](std::span<const Value> args) { return body(*this, args); });
  text << ')';
  text.Signature(operands, results);
  return Emit(std::move(text), results);
}

Value Builder::TakeRows(Value x, Value index) {
  if (x.rank() == 0) Fail("TakeRows", "at least one dimension", ToString(x.type()));
  Ints sizes = x.dims(), dims = index.dims();
  dims.insert(dims.end(), sizes.begin() + 1, sizes.end());
  if (NumElements(dims) == 0 || sizes[0] == 0) return Full(dims, 0.0, x.dtype());
  GatherDims d;
  for (int64_t i = 1; i < x.rank(); ++i) d.offset_dims.push_back(index.rank() + i - 1);
  d.collapsed_slice_dims = {0};
  d.start_index_map = {0};
  d.index_vector_dim = index.rank();
  index = NarrowIndex(*this, index, sizes[0]);
  sizes[0] = 1;
  return Gather(x, index, d, sizes);
}

Value Builder::TakeAlong(Value x, int64_t dim, Value index) {
  if (x.rank() == 0 || index.rank() == 0) {
    if (x.numel() != 1 || index.numel() != 1)
      Fail("TakeAlong", "an index of the operand's rank", ToString(index.type()));
    return Reshape(x, index.dims());
  }
  if (index.rank() != x.rank())
    Fail("TakeAlong", "an index of the operand's rank", ToString(index.type()) + " for " + ToString(x.type()));
  dim = WrapDim("TakeAlong", dim, x.rank());
  if (index.numel() == 0 || x.numel() == 0) return Full(index.dims(), 0.0, x.dtype());
  Ints limits = index.dims(), sizes(x.rank(), 1);
  limits[dim] = x.dims()[dim];
  x = Slice(x, Ints(x.rank(), 0), limits);
  GatherDims d;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != dim) d.operand_batching_dims.push_back(i);
  d.start_indices_batching_dims = d.operand_batching_dims;
  d.collapsed_slice_dims = {dim};
  d.start_index_map = {dim};
  d.index_vector_dim = index.rank();
  return Gather(x, NarrowIndex(*this, index, x.dims()[dim]), d, sizes);
}

void Builder::CheckTrue(Value condition, std::string message) {
  Check(Cast(Cast(condition, DType::kBool), DType::kI64), 0, 1, 2, std::move(message));
}

void Builder::Check(Value index, int64_t dim, int64_t lower, int64_t upper, std::string assertion) {
  // A region's values cannot leave it.
  if (!checks_enabled_ || scopes_.size() > 1 || index.numel() == 0) return;
  Value flat = Flatten(Cast(index, DType::kI64));
  Value outside = Or(Lt(flat, ConstInt(lower)), Ge(flat, ConstInt(upper)));
  int64_t n = flat.numel();
  Value place = Min(Select(outside, Iota(n), ConstInt(n)), Ints{0}, false);
  Value start[] = {place};  // clamped when nothing is outside
  Value parts[] = {Cast(Lt(place, ConstInt(n)), DType::kI64), Reshape(DynamicSlice(flat, start, Ints{1}), Ints{})};
  for (Value& part : parts) part = Reshape(part, Ints{1});
  checks_.push_back({checked_op_, dim, lower, upper, Concat(parts, 0), std::move(assertion)});
}

}  // namespace tpu::hlo
