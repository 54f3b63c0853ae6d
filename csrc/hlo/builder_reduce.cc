// Reductions, windows and scans.
#include <algorithm>
#include <limits>

#include "hlo/builder_text.h"

namespace tpu::hlo {

namespace {

Ints Without(const Ints& dims, const Ints& removed) {
  Ints out;
  for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); ++i)
    if (std::find(removed.begin(), removed.end(), i) == removed.end()) out.push_back(dims[i]);
  return out;
}

Ints WithOnes(Ints dims, const Ints& reduced) {
  for (int64_t d : reduced) dims[d] = 1;
  return dims;
}

std::vector<Type> ScalarTypes(std::span<const Value> xs) {
  std::vector<Type> types;
  for (Value x : xs) types.push_back({x.dtype(), {}});
  return types;
}

// Arrays of one shape, each with a scalar of its element type.
void CheckArrays(std::string_view op, std::span<const Value> xs, std::span<const Value> inits) {
  if (xs.empty() || xs.size() != inits.size())
    Fail(op, "as many initial values as arrays", std::to_string(inits.size()) + " and " + std::to_string(xs.size()));
  for (size_t i = 0; i < xs.size(); ++i) {
    if (xs[i].dims() != xs[0].dims())
      Fail(op, "arrays of one shape", ToString(xs[0].type()) + " and " + ToString(xs[i].type()));
    if (inits[i].type() != Type{xs[i].dtype(), {}})
      Fail(op, ToString(Type{xs[i].dtype(), {}}) + " as initial value " + std::to_string(i), ToString(inits[i].type()));
  }
}

struct Window {
  Ints sizes, strides, base, dilations, low, high;
};

Window Complete(std::string_view op, const WindowDims& given, int64_t rank) {
  Window w{given.sizes,       given.strides,     given.base_dilations, given.window_dilations,
           given.padding_low, given.padding_high};
  for (Ints* list : {&w.strides, &w.base, &w.dilations})
    if (list->empty()) list->assign(rank, 1);
  for (Ints* list : {&w.low, &w.high})
    if (list->empty()) list->assign(rank, 0);
  for (const Ints* list : {&w.sizes, &w.strides, &w.base, &w.dilations, &w.low, &w.high})
    if (static_cast<int64_t>(list->size()) != rank)
      Fail(op, "window entries for each of " + std::to_string(rank) + " dimensions", ToString(*list));
  for (const Ints* list : {&w.sizes, &w.strides, &w.base, &w.dilations})
    for (int64_t v : *list)
      if (v < 1) Fail(op, "window sizes, strides and dilations >= 1", ToString(*list));
  return w;
}

}  // namespace

Value Builder::SimpleReduce(std::string_view op, Value x, Value init, std::span<const int64_t> dims, bool keep_dims) {
  Ints reduced = WrapDims(op, dims, x.rank());
  if (reduced.empty()) return x;
  Type type{x.dtype(), Without(x.dims(), reduced)};
  Ints kept = WithOnes(x.dims(), reduced);
  Value operands[] = {x, init};
  Text text(*this, "stablehlo.reduce(");
  text << x << " init: " << init << ") applies " << op << " across dimensions = " << reduced;
  text.Signature(operands, type);
  Value result = Emit(std::move(text), std::move(type));
  return keep_dims ? Reshape(result, kept) : result;
}

Value Builder::Sum(Value x, std::span<const int64_t> dims, bool keep_dims) {
  return SimpleReduce(IsBool(x.dtype()) ? "stablehlo.or" : "stablehlo.add", x, ConstInt(0, x.dtype()), dims, keep_dims);
}

Value Builder::Prod(Value x, std::span<const int64_t> dims, bool keep_dims) {
  return SimpleReduce(IsBool(x.dtype()) ? "stablehlo.and" : "stablehlo.multiply", x, ConstInt(1, x.dtype()), dims,
                      keep_dims);
}

Value Builder::Max(Value x, std::span<const int64_t> dims, bool keep_dims) {
  return SimpleReduce(IsBool(x.dtype()) ? "stablehlo.or" : "stablehlo.maximum", x, Extreme(x.dtype(), true), dims,
                      keep_dims);
}

Value Builder::Min(Value x, std::span<const int64_t> dims, bool keep_dims) {
  return SimpleReduce(IsBool(x.dtype()) ? "stablehlo.and" : "stablehlo.minimum", x, Extreme(x.dtype(), false), dims,
                      keep_dims);
}

Value Builder::All(Value x, std::span<const int64_t> dims, bool keep_dims) {
  return SimpleReduce("stablehlo.and", Cast(x, DType::kBool), ConstInt(1, DType::kBool), dims, keep_dims);
}

Value Builder::Any(Value x, std::span<const int64_t> dims, bool keep_dims) {
  return SimpleReduce("stablehlo.or", Cast(x, DType::kBool), ConstInt(0, DType::kBool), dims, keep_dims);
}

std::vector<Value> Builder::Reduce(std::span<const Value> xs, std::span<const Value> inits,
                                   std::span<const int64_t> dims, const Body& body) {
  CheckArrays("Reduce", xs, inits);
  Ints reduced = WrapDims("Reduce", dims, xs[0].rank());
  if (reduced.empty()) return std::vector<Value>(xs.begin(), xs.end());
  std::vector<Value> operands(xs.begin(), xs.end());
  operands.insert(operands.end(), inits.begin(), inits.end());
  std::vector<Type> scalars = ScalarTypes(xs), arguments = ScalarTypes(operands), results;
  for (Value x : xs) results.push_back({x.dtype(), Without(x.dims(), reduced)});
  Text text(*this, "\"stablehlo.reduce\"(");
  (text.Values(operands) << ") <{dimensions = ").Array(reduced) << "}> (";
  AppendRegion(text, "Reduce", arguments, scalars, false,
               [&](std::span<const Value> args) { return body(*this, args); });
  text << ')';
  text.Signature(operands, results);
  return Emit(std::move(text), results);
}

std::pair<Value, Value> Builder::ArgReduce(Value x, int64_t dim, bool largest) {
  std::string_view op = largest ? "ArgMax" : "ArgMin";
  if (x.rank() == 0) return {x, ConstInt(0)};
  dim = WrapDim(op, dim, x.rank());
  if (IsBool(x.dtype())) {
    auto [value, index] = ArgReduce(Cast(x, DType::kU8), dim, largest);
    return {Cast(value, DType::kBool), index};
  }
  if (x.dims()[dim] == 0) Fail(op, "at least one element along dimension " + std::to_string(dim), ToString(x.type()));
  if (x.dims()[dim] == 1) return {x, Full(x.dims(), 0.0, DType::kI64)};
  DType index_type = x.dims()[dim] <= std::numeric_limits<int32_t>::max() ? DType::kI32 : DType::kI64;
  Value arrays[] = {x, Iota(x.dims(), dim, index_type)};
  // Any real element's index is below the initial one, so a row of extremes still gives its first.
  Value inits[] = {Extreme(x.dtype(), largest), Extreme(index_type, false)};
  std::vector<Value> out = Reduce(arrays, inits, Ints{dim}, [&](Builder& b, std::span<const Value> v) {
    Value better = largest ? b.Gt(v[0], v[2]) : b.Lt(v[0], v[2]), tie = b.Eq(v[0], v[2]);
    if (IsFloat(x.dtype())) {
      Value nan0 = b.IsNan(v[0]), nan1 = b.IsNan(v[2]);
      better = b.Or(better, b.And(nan0, b.Not(nan1)));
      tie = b.Or(tie, b.And(nan0, nan1));
    }
    Value first = b.Or(better, b.And(tie, b.Lt(v[1], v[3])));
    return std::vector<Value>{b.Select(b.Or(better, tie), v[0], v[2]), b.Select(first, v[1], v[3])};
  });
  Ints kept = WithOnes(x.dims(), {dim});
  return {Reshape(out[0], kept), Cast(Reshape(out[1], kept), DType::kI64)};
}

std::pair<Value, Value> Builder::ArgMax(Value x, int64_t dim) { return ArgReduce(x, dim, true); }
std::pair<Value, Value> Builder::ArgMin(Value x, int64_t dim) { return ArgReduce(x, dim, false); }

std::vector<Value> Builder::ReduceWindow(std::span<const Value> xs, std::span<const Value> inits,
                                         const WindowDims& window, const Body& body) {
  CheckArrays("ReduceWindow", xs, inits);
  int64_t rank = xs[0].rank();
  Window w = Complete("ReduceWindow", window, rank);
  std::vector<Value> operands(xs.begin(), xs.end());
  operands.insert(operands.end(), inits.begin(), inits.end());
  std::vector<Type> scalars = ScalarTypes(xs), arguments = ScalarTypes(operands), results;
  Ints dims;
  for (int64_t i = 0; i < rank; ++i) {
    int64_t size = xs[0].dims()[i];
    int64_t padded = (size == 0 ? 0 : (size - 1) * w.base[i] + 1) + w.low[i] + w.high[i];
    int64_t reach = (w.sizes[i] - 1) * w.dilations[i] + 1;
    dims.push_back(padded < reach ? 0 : (padded - reach) / w.strides[i] + 1);
  }
  for (Value x : xs) results.push_back({x.dtype(), dims});
  Text text(*this, "\"stablehlo.reduce_window\"(");
  (text.Values(operands) << ") <{base_dilations = ").Array(w.base) << ", padding = dense<";
  (text.Pairs(w.low, w.high) << "> : tensor<" << rank << "x2xi64>, window_dilations = ").Array(w.dilations);
  (text << ", window_dimensions = ").Array(w.sizes);
  (text << ", window_strides = ").Array(w.strides) << "}> (";
  AppendRegion(text, "ReduceWindow", arguments, scalars, false,
               [&](std::span<const Value> args) { return body(*this, args); });
  text << ')';
  text.Signature(operands, results);
  return Emit(std::move(text), results);
}

Value Builder::SelectAndScatter(Value x, Value source, Value init, const WindowDims& window, const Combine& select,
                                const Combine& scatter) {
  Window w = Complete("SelectAndScatter", window, x.rank());
  Ints ones(x.rank(), 1);
  if (w.base != ones || w.dilations != ones)
    Fail("SelectAndScatter", "no dilation", ToString(w.base) + " and " + ToString(w.dilations));
  Type scalar{x.dtype(), {}}, type = x.type();
  if (init.type() != scalar) Fail("SelectAndScatter", ToString(scalar) + " as initial value", ToString(init.type()));
  Value operands[] = {x, source, init};
  Type arguments[] = {scalar, scalar}, flag[] = {{DType::kBool, {}}}, sum[] = {scalar};
  auto region = [this](const Combine& combine) {
    return [this, &combine](std::span<const Value> v) { return std::vector<Value>{combine(*this, v[0], v[1])}; };
  };
  Text text(*this, "\"stablehlo.select_and_scatter\"(");
  (text.Values(operands) << ") <{padding = dense<").Pairs(w.low, w.high) << "> : tensor<" << x.rank();
  (text << "x2xi64>, window_dimensions = ").Array(w.sizes);
  (text << ", window_strides = ").Array(w.strides) << "}> (";
  AppendRegion(text, "SelectAndScatter", arguments, flag, false, region(select));
  text << ", ";
  AppendRegion(text, "SelectAndScatter", arguments, sum, false, region(scatter));
  text << ')';
  text.Signature(operands, type);
  return Emit(std::move(text), std::move(type));
}

namespace {

using ScanCombine = std::function<std::vector<Value>(std::span<const Value>, std::span<const Value>)>;

std::vector<Value> SliceAll(Builder& b, std::span<const Value> xs, int64_t dim, int64_t start, int64_t limit,
                            int64_t stride) {
  std::vector<Value> out;
  for (Value x : xs) out.push_back(b.SliceDim(x, dim, start, limit, stride));
  return out;
}

// even[0], odd[0], even[1], ... : both spread over -0 (the exact neutral element of +), then added.
Value Interleave(Builder& b, Value even, Value odd, int64_t dim) {
  int64_t n = even.dims()[dim], m = odd.dims()[dim];
  Ints zeros(even.rank(), 0), inner = zeros, low = zeros, high = zeros;
  inner[dim] = 1;
  high[dim] = n == m ? 1 : 0;
  Value fill = IsFloat(even.dtype())     ? b.Const(-0.0, even.dtype())
               : IsComplex(even.dtype()) ? b.Const(std::complex<double>(-0.0, -0.0), even.dtype())
                                         : b.ConstInt(0, even.dtype());
  Value spread_even = b.Pad(even, fill, zeros, high, inner);
  low[dim] = 1;
  high[dim] = n == m ? 0 : 1;
  return b.Add(spread_even, b.Pad(odd, fill, low, high, inner));
}

// As jax.lax.associative_scan: scan the sums of pairs, which gives the odd places; then fill in the even ones.
std::vector<Value> Scan(Builder& b, std::span<const Value> xs, int64_t dim, const ScanCombine& combine) {
  int64_t n = xs[0].dims()[dim];
  if (n < 2) return std::vector<Value>(xs.begin(), xs.end());
  std::vector<Value> pairs = combine(SliceAll(b, xs, dim, 0, n - 1, 2), SliceAll(b, xs, dim, 1, n, 2));
  std::vector<Value> odd = Scan(b, pairs, dim, combine);
  std::vector<Value> first = SliceAll(b, xs, dim, 0, 1, 1), even = first;
  if (n > 2) {
    std::vector<Value> before = n % 2 == 0 ? SliceAll(b, odd, dim, 0, n / 2 - 1, 1) : odd;
    std::vector<Value> rest = combine(before, SliceAll(b, xs, dim, 2, n, 2));
    for (size_t i = 0; i < xs.size(); ++i) even[i] = b.Concat(std::vector<Value>{first[i], rest[i]}, dim);
  }
  std::vector<Value> out;
  for (size_t i = 0; i < xs.size(); ++i) out.push_back(Interleave(b, even[i], odd[i], dim));
  return out;
}

// By doubling: after k steps each place has combined the 2^k up to it.
std::vector<Value> DoublingScan(Builder& b, std::vector<Value> xs, int64_t dim, const ScanCombine& combine) {
  const int64_t n = std::max<int64_t>(xs[0].dims()[dim], 8);
  for (int64_t step = 1; step < n; step *= 2) {
    Ints low(xs[0].rank(), 0), high = low;
    low[dim] = step;
    high[dim] = -step;
    std::vector<Value> before;
    for (Value x : xs) before.push_back(b.Pad(x, b.ConstInt(0, x.dtype()), low, high));
    const std::vector<Value> combined = combine(before, xs);
    Value alone = b.Lt(b.Iota(xs[0].dims(), dim, DType::kI32), b.ConstInt(step, DType::kI32));
    for (size_t i = 0; i < xs.size(); ++i) xs[i] = b.Select(alone, xs[i], combined[i]);
  }
  return xs;
}

}  // namespace

std::vector<Value> Builder::AssociativeScan(std::span<const Value> xs, int64_t dim, const ScanCombine& combine,
                                            bool reverse) {
  if (xs.empty()) return {};
  dim = WrapDim("AssociativeScan", dim, xs[0].rank());
  for (Value x : xs)
    if (x.dims() != xs[0].dims())
      Fail("AssociativeScan", "arrays of one shape", ToString(xs[0].type()) + " and " + ToString(x.type()));
  std::vector<Value> arrays(xs.begin(), xs.end());
  if (reverse)
    for (Value& x : arrays) x = Reverse(x, Ints{dim});
  std::vector<Value> out = comparable_ ? DoublingScan(*this, arrays, dim, combine) : Scan(*this, arrays, dim, combine);
  if (reverse)
    for (Value& x : out) x = Reverse(x, Ints{dim});
  return out;
}

}  // namespace tpu::hlo
