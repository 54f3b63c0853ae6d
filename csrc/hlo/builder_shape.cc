// Shapes: reshape, transpose, broadcast, slice, concatenate, pad.
#include <algorithm>

#include "hlo/builder_text.h"

namespace tpu::hlo {

namespace {

void CheckCount(std::string_view op, std::string_view what, size_t count, int64_t rank) {
  if (static_cast<int64_t>(count) != rank)
    Fail(op, "one entry of " + std::string(what) + " per dimension (" + std::to_string(rank) + ")",
         std::to_string(count));
}

}  // namespace

Value Builder::Reshape(Value x, std::span<const int64_t> dims) {
  Type type{x.dtype(), Ints(dims.begin(), dims.end())};
  if (type.dims == x.dims() && !comparable_) return x;
  if (NumElements(dims) != x.numel() || std::any_of(dims.begin(), dims.end(), [](int64_t d) { return d < 0; }))
    Fail("Reshape", "a shape of " + std::to_string(x.numel()) + " elements (" + ToString(x.type()) + ")",
         ToString(dims));
  Text text(*this, "stablehlo.reshape ");
  text << x;
  text.Signature(std::span(&x, 1), type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::Transpose(Value x, std::span<const int64_t> permutation) {
  CheckCount("Transpose", "the permutation", permutation.size(), x.rank());
  Ints order;
  Type type{x.dtype(), {}};
  std::vector<bool> seen(x.rank());
  bool identity = true;
  for (int64_t p : permutation) {
    p = WrapDim("Transpose", p, x.rank());
    if (seen[p]) Fail("Transpose", "a permutation", ToString(permutation));
    seen[p] = true;
    identity &= p == static_cast<int64_t>(order.size());
    order.push_back(p);
    type.dims.push_back(x.dims()[p]);
  }
  if (identity) return x;
  Text text(*this, "stablehlo.transpose ");
  text << x << ", dims = " << order;
  text.Signature(std::span(&x, 1), type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::SwapDims(Value x, int64_t a, int64_t b) {
  if (x.rank() == 0) return x;
  Ints order(x.rank());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::swap(order[WrapDim("SwapDims", a, x.rank())], order[WrapDim("SwapDims", b, x.rank())]);
  return Transpose(x, order);
}

Value Builder::BroadcastTo(Value x, std::span<const int64_t> dims) {
  if (std::ranges::equal(x.dims(), dims) && !comparable_) return x;
  auto shift = static_cast<int64_t>(dims.size()) - x.rank();
  bool fits = shift >= 0;
  Ints broadcast_dims;
  for (int64_t i = 0; fits && i < x.rank(); ++i) {
    fits = x.dims()[i] == dims[i + shift] || x.dims()[i] == 1;
    broadcast_dims.push_back(i + shift);
  }
  if (!fits) Fail("BroadcastTo", "a shape that " + ToString(x.type()) + " broadcasts to", ToString(dims));
  return BroadcastInDim(x, dims, broadcast_dims);
}

Value Builder::BroadcastInDim(Value x, std::span<const int64_t> dims, std::span<const int64_t> broadcast_dims) {
  CheckCount("BroadcastInDim", "broadcast_dims", broadcast_dims.size(), x.rank());
  for (int64_t i = 0; i < x.rank(); ++i) {
    int64_t d = broadcast_dims[i];
    if (d < 0 || d >= static_cast<int64_t>(dims.size()) || (x.dims()[i] != 1 && x.dims()[i] != dims[d]))
      Fail("BroadcastInDim", "dimensions that " + ToString(x.type()) + " fits in " + ToString(dims),
           ToString(broadcast_dims));
  }
  Type type{x.dtype(), Ints(dims.begin(), dims.end())};
  Text text(*this, "stablehlo.broadcast_in_dim ");
  text << x << ", dims = " << broadcast_dims;
  text.Signature(std::span(&x, 1), type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::Unsqueeze(Value x, int64_t dim) {
  Ints dims = x.dims();
  dims.insert(dims.begin() + WrapDim("Unsqueeze", dim, x.rank() + 1), 1);
  return Reshape(x, dims);
}

Value Builder::Squeeze(Value x, int64_t dim) {
  dim = WrapDim("Squeeze", dim, x.rank());
  if (x.dims()[dim] != 1) Fail("Squeeze", "a dimension of size 1", std::to_string(x.dims()[dim]));
  Ints dims = x.dims();
  dims.erase(dims.begin() + dim);
  return Reshape(x, dims);
}

Value Builder::Slice(Value x, std::span<const int64_t> starts, std::span<const int64_t> limits,
                     std::span<const int64_t> strides) {
  CheckCount("Slice", "starts", starts.size(), x.rank());
  CheckCount("Slice", "limits", limits.size(), x.rank());
  if (!strides.empty()) CheckCount("Slice", "strides", strides.size(), x.rank());
  Type type{x.dtype(), {}};
  Text text(*this, "stablehlo.slice ");
  text << x << " [";
  for (int64_t i = 0; i < x.rank(); ++i) {
    int64_t stride = strides.empty() ? 1 : strides[i];
    if (starts[i] < 0 || starts[i] > limits[i] || limits[i] > x.dims()[i] || stride < 1)
      Fail("Slice",
           "0 <= start <= limit <= " + std::to_string(x.dims()[i]) + " and a stride >= 1 in dimension " +
               std::to_string(i),
           std::to_string(starts[i]) + ":" + std::to_string(limits[i]) + ":" + std::to_string(stride));
    text << (i ? ", " : "") << starts[i] << ':' << limits[i];
    if (stride != 1) text << ':' << stride;
    type.dims.push_back((limits[i] - starts[i] + stride - 1) / stride);
  }
  if (type.dims == x.dims() && !comparable_) return x;
  text << ']';
  text.Signature(std::span(&x, 1), type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::SliceDim(Value x, int64_t dim, int64_t start, int64_t limit, int64_t stride) {
  dim = WrapDim("SliceDim", dim, x.rank());
  Ints starts(x.rank(), 0), limits = x.dims(), strides(x.rank(), 1);
  starts[dim] = start;
  limits[dim] = limit;
  strides[dim] = stride;
  return Slice(x, starts, limits, strides);
}

Value Builder::Concat(std::span<const Value> xs, int64_t dim) {
  if (xs.empty()) Fail("Concat", "at least one value", "none");
  if (xs.size() == 1) return xs[0];
  dim = WrapDim("Concat", dim, xs[0].rank());
  DType dtype = xs[0].dtype();
  for (Value x : xs) dtype = Promote(dtype, x.dtype());
  std::vector<Value> parts;
  Type type{dtype, xs[0].dims()};
  type.dims[dim] = 0;
  for (Value x : xs) {
    Ints other = x.dims();
    bool fits = other.size() == type.dims.size();
    if (fits) {
      type.dims[dim] += other[dim];
      other[dim] = type.dims[dim];
    }
    if (other != type.dims)
      Fail("Concat", "shapes that agree outside dimension " + std::to_string(dim),
           ToString(xs[0].type()) + " and " + ToString(x.type()));
    parts.push_back(Cast(x, dtype));
  }
  Text text(*this, "stablehlo.concatenate ");
  text.Values(parts) << ", dim = " << dim;
  text.Signature(parts, type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::Pad(Value x, Value value, std::span<const int64_t> low, std::span<const int64_t> high,
                   std::span<const int64_t> interior) {
  CheckCount("Pad", "low", low.size(), x.rank());
  CheckCount("Pad", "high", high.size(), x.rank());
  if (!interior.empty()) CheckCount("Pad", "interior", interior.size(), x.rank());
  if (value.rank() != 0) Fail("Pad", "a scalar to pad with", ToString(value.type()));
  Ints inner = interior.empty() ? Ints(x.rank(), 0) : Ints(interior.begin(), interior.end());
  Type type{x.dtype(), {}};
  bool identity = true;
  for (int64_t i = 0; i < x.rank(); ++i) {
    int64_t size = low[i] + x.dims()[i] + std::max<int64_t>(x.dims()[i] - 1, 0) * inner[i] + high[i];
    if (size < 0 || inner[i] < 0)
      Fail("Pad", "sizes and interior padding >= 0",
           "low " + ToString(low) + ", high " + ToString(high) + " of " + ToString(x.type()));
    identity &= low[i] == 0 && high[i] == 0 && inner[i] == 0;
    type.dims.push_back(size);
  }
  if (identity && !comparable_) return x;
  Value operands[] = {x, Cast(value, x.dtype())};
  Text text(*this, "stablehlo.pad ");
  text.Values(operands) << ", low = " << low << ", high = " << high << ", interior = " << inner;
  text.Signature(operands, type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::Reverse(Value x, std::span<const int64_t> dims) {
  if (dims.empty()) return x;
  Type type = x.type();
  Text text(*this, "stablehlo.reverse ");
  text << x << ", dims = " << WrapDims("Reverse", dims, x.rank()) << " : " << type;
  return Emit(std::move(text), std::move(type));
}

namespace {

// Start indices as stablehlo wants them: scalars of one integer type.
std::vector<Value> UniformStarts(Builder& b, std::string_view op, std::span<const Value> starts) {
  std::vector<Value> out(starts.begin(), starts.end());
  bool uniform = true;
  for (Value& s : out) {
    if (s.numel() != 1 || !(IsInteger(s.dtype()) || IsBool(s.dtype())))
      Fail(op, "integer scalars as starts", ToString(s.type()));
    s = b.Reshape(s, Ints{});
    uniform &= s.dtype() == out[0].dtype() && IsInteger(s.dtype());
  }
  if (!uniform)
    for (Value& s : out) s = b.Cast(s, DType::kI64);
  return out;
}

}  // namespace

Value Builder::DynamicSlice(Value x, std::span<const Value> starts, std::span<const int64_t> sizes) {
  CheckCount("DynamicSlice", "starts", starts.size(), x.rank());
  CheckCount("DynamicSlice", "sizes", sizes.size(), x.rank());
  for (int64_t i = 0; i < x.rank(); ++i)
    if (sizes[i] < 0 || sizes[i] > x.dims()[i])
      Fail("DynamicSlice", "sizes within " + ToString(x.type()), ToString(sizes));
  std::vector<Value> operands = UniformStarts(*this, "DynamicSlice", starts);
  operands.insert(operands.begin(), x);
  Type type{x.dtype(), Ints(sizes.begin(), sizes.end())};
  Text text(*this, "stablehlo.dynamic_slice ");
  text.Values(operands) << ", sizes = " << sizes;
  text.Signature(operands, type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::DynamicUpdateSlice(Value x, Value update, std::span<const Value> starts) {
  CheckCount("DynamicUpdateSlice", "starts", starts.size(), x.rank());
  CheckCount("DynamicUpdateSlice", "the update's shape", update.dims().size(), x.rank());
  for (int64_t i = 0; i < x.rank(); ++i)
    if (update.dims()[i] > x.dims()[i])
      Fail("DynamicUpdateSlice", "an update within " + ToString(x.type()), ToString(update.type()));
  std::vector<Value> operands = UniformStarts(*this, "DynamicUpdateSlice", starts);
  Value head[] = {x, Cast(update, x.dtype())};
  operands.insert(operands.begin(), head, head + 2);
  Type type = x.type();
  Text text(*this, "stablehlo.dynamic_update_slice ");
  text.Values(operands).Signature(operands, type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::UpdateSlice(Value x, Value update, std::span<const int64_t> starts) {
  CheckCount("UpdateSlice", "starts", starts.size(), x.rank());
  CheckCount("UpdateSlice", "the update's shape", update.dims().size(), x.rank());
  if (update.dims() == x.dims() && !comparable_) return Cast(update, x.dtype());
  std::vector<Value> values;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (starts[i] < 0 || starts[i] + update.dims()[i] > x.dims()[i])
      Fail("UpdateSlice", "an update within " + ToString(x.type()),
           ToString(update.type()) + " at " + ToString(starts));
    values.push_back(ConstInt(starts[i]));
  }
  return DynamicUpdateSlice(x, update, values);
}

}  // namespace tpu::hlo
