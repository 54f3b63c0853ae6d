// Sort, loops, branches, custom calls.
#include "hlo/builder_text.h"

namespace tpu::hlo {

namespace {

std::vector<Type> TypesOf(std::span<const Value> values) {
  std::vector<Type> types;
  for (Value v : values) types.push_back(v.type());
  return types;
}

const Type kFlag[] = {{DType::kBool, {}}};

}  // namespace

std::vector<Value> Builder::Sort(std::span<const Value> xs, int64_t dim, bool stable,
                                 const std::function<Value(Builder&, std::span<const Value>)>& less) {
  if (xs.empty()) Fail("Sort", "at least one array", "none");
  if (xs[0].rank() == 0) return std::vector<Value>(xs.begin(), xs.end());
  dim = WrapDim("Sort", dim, xs[0].rank());
  std::vector<Type> arguments, results = TypesOf(xs);
  for (Value x : xs) {
    if (x.dims() != xs[0].dims())
      Fail("Sort", "arrays of one shape", ToString(xs[0].type()) + " and " + ToString(x.type()));
    arguments.insert(arguments.end(), 2, Type{x.dtype(), {}});
  }
  Text text(*this, "\"stablehlo.sort\"(");
  text.Values(xs) << ") <{dimension = " << dim << " : i64, is_stable = " << stable << "}> (";
  AppendRegion(text, "Sort", arguments, kFlag, false,
               [&](std::span<const Value> args) { return std::vector<Value>{less(*this, args)}; });
  text << ')';
  text.Signature(xs, results);
  return Emit(std::move(text), results);
}

std::vector<Value> Builder::While(std::span<const Value> init,
                                  const std::function<Value(Builder&, std::span<const Value>)>& condition,
                                  const Body& body) {
  std::vector<Type> types = TypesOf(init);
  Text text(*this, "\"stablehlo.while\"(");
  text.Values(init) << ") (";
  AppendRegion(text, "While", types, kFlag, true,
               [&](std::span<const Value> args) { return std::vector<Value>{condition(*this, args)}; });
  text << ", ";
  AppendRegion(text, "While", types, types, true, [&](std::span<const Value> args) { return body(*this, args); });
  text << ')';
  text.Signature(init, types);
  return Emit(std::move(text), types);
}

std::vector<Value> Builder::If(Value pred, const std::function<std::vector<Value>()>& on_true,
                               const std::function<std::vector<Value>()>& on_false) {
  pred = Reshape(Cast(pred, DType::kBool), Ints{});
  std::vector<Type> types;
  Text text(*this, "\"stablehlo.if\"(");
  text << pred << ") (";
  // The first branch says what the second has to give.
  AppendRegion(text, "If", {}, std::nullopt, true, [&](std::span<const Value>) {
    std::vector<Value> results = on_true();
    types = TypesOf(results);
    return results;
  });
  text << ", ";
  AppendRegion(text, "If", {}, types, true, [&](std::span<const Value>) { return on_false(); });
  text << ')';
  text.Signature(std::span(&pred, 1), types);
  return Emit(std::move(text), types);
}

std::vector<Value> Builder::CustomCall(std::string_view target, std::span<const Value> operands,
                                       std::span<const Type> results, std::string_view attributes) {
  Text text(*this, "stablehlo.custom_call @");
  AppendQuoted(text.text, target);
  (text << '(').Values(operands) << ')';
  if (!attributes.empty()) text << " {" << attributes << '}';
  text.Signature(operands, results);
  return Emit(std::move(text), results, attributes.find("has_side_effect = true") != std::string_view::npos);
}

Value Builder::OptimizationBarrier(Value x) { return Unary("stablehlo.optimization_barrier", x); }

}  // namespace tpu::hlo
