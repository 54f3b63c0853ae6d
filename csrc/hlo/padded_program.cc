#include "hlo/padded_program.h"

#include <algorithm>

#include "hlo/builder_text.h"
#include "hlo/padded_emitter.h"

namespace tpu::hlo {

void RefusePadding(const std::string& op, const std::string& why) {
  throw BuildError(op + " cannot be padded: " + why, Code::kUnimplemented);
}

std::vector<Laid> PaddedEmitter::Operands(const Instruction& i) const {
  std::vector<Laid> operands;
  for (int32_t id : i.operands) operands.push_back(At(id));
  return operands;
}

Type PaddedEmitter::PaddedResult(const Instruction& i, int32_t r) const {
  return {program_.TypeOf(i.first_result + r).dtype, lay_.Padded(ResultSizes(i, r))};
}

std::vector<Value> PaddedEmitter::Instantiate(const Instruction& i, std::span<const Laid> operands) {
  Text text(b_, "");
  std::unordered_map<int32_t, int32_t> inner;  // ids that the instruction's regions define
  size_t next = 0;
  const auto define = [&](const Piece& piece) {
    int32_t first = -1;
    for (int32_t k = 0; k < piece.count; ++k) {
      const SymbolicType& type = program_.TypeOf(piece.id + k);
      const int32_t id = b_.NewValue({type.dtype, lay_.Padded(type.dims)});
      inner.emplace(piece.id + k, id);
      if (k == 0) first = id;
    }
    return first;
  };
  for (const Piece& piece : i.pieces) {
    switch (piece.kind) {
      case Piece::Kind::kLiteral: text << piece.text; break;
      case Piece::Kind::kNumber:
        if (piece.number.is_constant())
          text << piece.text;
        else
          text << lay_.Padded(piece.number);
        break;
      case Piece::Kind::kUse:
        if (const auto it = inner.find(piece.id); it != inner.end()) {
          AppendMarker(text.text, kUse, it->second);
        } else if (next < operands.size()) {
          text << operands[next++].value;
        } else {
          text << At(piece.id).value;
        }
        break;
      case Piece::Kind::kArgument: AppendMarker(text.text, kArgument, define(piece)); break;
      case Piece::Kind::kDefine:
        AppendMarker(text.text, kDefine, define(piece));
        text.text.append(reinterpret_cast<const char*>(&piece.count), 4);
        break;
    }
  }
  std::vector<Type> types;
  for (int32_t r = 0; r < i.result_count; ++r) types.push_back(PaddedResult(i, r));
  return b_.Emit(std::move(text), types);
}

void PaddedEmitter::SetResults(const Instruction& i, std::span<const Value> values, const Axes& axes) {
  for (int32_t r = 0; r < i.result_count; ++r) Set(i.first_result + r, {values[r], axes});
}

void PaddedEmitter::Constant(const Instruction& i) {
  const SymbolicType& type = program_.TypeOf(i.first_result);
  const Axes axes = LinearAxes(type.dims);
  if (i.elements.empty()) {
    // The text of "stablehlo.constant dense<ELEMENTS> : type".
    std::string text;
    for (const Piece& piece : i.pieces) text += piece.text;
    const size_t begin = text.find("dense<") + 6, end = text.rfind("> : ");
    return Set(i.first_result,
               {b_.Literal(text.substr(begin, end - begin), {type.dtype, lay_.Padded(type.dims)}), axes});
  }
  std::vector<Value> values;
  for (const SymbolicProgram::Element& element : i.elements) {
    Value value = b_.Cast(lay_.True(element.numerator), type.dtype);
    if (element.divisor != Polynomial(1)) value = value / b_.Cast(lay_.True(element.divisor), type.dtype);
    values.push_back(type.dims.empty() ? value : b_.Reshape(value, Ints{1}));
  }
  Set(i.first_result, {type.dims.empty() ? values[0] : b_.Concat(values, 0), axes});
}

void PaddedEmitter::Elementwise(const Instruction& i) {
  std::vector<Laid> operands = Operands(i), shaped;
  const size_t rank = ResultSizes(i).size();
  // A scalar predicate or bound stands beside arrays.
  const auto is_shaped = [&](const Laid& x) { return x.axes.size() == rank; };
  std::copy_if(operands.begin(), operands.end(), std::back_inserter(shaped), is_shaped);
  if (shaped.empty()) RefusePadding(i.op, "its operands have another rank than its result");
  const Axes axes = lay_.Merge(shaped);
  size_t next = 0;
  for (Laid& x : operands) {
    if (is_shaped(x)) x = shaped[next++];
  }
  SetResults(i, Instantiate(i, operands), axes);
}

void PaddedEmitter::Batched(const Instruction& i, int64_t fixed) {
  std::vector<Laid> operands = Operands(i);
  const int64_t batch = static_cast<int64_t>(operands[0].axes.size()) - fixed;
  for (const Laid& x : operands) {
    for (int64_t d = batch; d < static_cast<int64_t>(x.axes.size()); ++d)
      if (!IsStatic(x.axes[d])) RefusePadding(i.op, "a dimension that it works along depends on a size");
  }
  for (int round = 0; round < 2; ++round) {
    for (Laid& x : operands)
      for (int64_t d = 0; d < batch; ++d) lay_.MergeDims(operands[0], d, x, d);
  }
  Axes axes = LinearAxes(ResultSizes(i));
  for (int64_t d = 0; d < batch; ++d) {
    axes[d] = operands[0].axes[d];
    for (Factor& f : axes[d]) f.uniform = false;
  }
  SetResults(i, Instantiate(i, operands), axes);
}

// Of an operation that changes nothing but the shape: its result has its operand's shape.
bool PaddedEmitter::DoesNothing(const Instruction& i) const {
  if (i.op == "stablehlo.pad" || i.op == "stablehlo.slice") {
    // A crop and as much padding leave the shape.
    for (const Piece& piece : i.pieces) {
      if (piece.kind == Piece::Kind::kNumber && piece.text.starts_with('-')) return false;
    }
    if (i.op == "stablehlo.pad" && !(i.List("low = [") == Sizes(ResultSizes(i).size(), 0))) return false;
  }
  return program_.TypeOf(i.operands[0]).dims == ResultSizes(i);
}

void PaddedEmitter::Emit(const Instruction& i) {
  b_.SetLocation(i.location);
  if (i.op == "stablehlo.constant") return Constant(i);
  // What has to do with no size is as it was.
  const auto is_static = [&](int32_t id) { return program_.TypeOf(id).is_static(); };
  bool plain = i.static_region && std::all_of(i.operands.begin(), i.operands.end(), is_static);
  for (int32_t r = 0; r < i.result_count; ++r) plain = plain && is_static(i.first_result + r);
  for (const Piece& piece : i.pieces) plain = plain && piece.number.is_constant();
  static constexpr std::string_view kShapes[] = {"stablehlo.reshape", "stablehlo.slice", "stablehlo.pad",
                                                 "stablehlo.broadcast_in_dim"};
  if (std::ranges::count(kShapes, i.op) && DoesNothing(i)) return Set(i.first_result, At(i.operands[0]));
  if (plain) {
    std::vector<Value> values = Instantiate(i, Operands(i));
    for (int32_t r = 0; r < i.result_count; ++r)
      Set(i.first_result + r, {values[r], LinearAxes(program_.TypeOf(i.first_result + r).dims)});
    return;
  }
  if (!i.static_region) RefusePadding(i.op, "its region depends on a size");
  struct Handler {
    std::string_view op;
    void (PaddedEmitter::*emit)(const Instruction&);
  };
  static constexpr Handler kHandlers[] = {
      {"stablehlo.iota", &PaddedEmitter::Iota},
      {"stablehlo.broadcast_in_dim", &PaddedEmitter::Broadcast},
      {"stablehlo.transpose", &PaddedEmitter::Transpose},
      {"stablehlo.slice", &PaddedEmitter::Slice},
      {"stablehlo.concatenate", &PaddedEmitter::Concat},
      {"stablehlo.pad", &PaddedEmitter::Pad},
      {"stablehlo.reverse", &PaddedEmitter::Reverse},
      {"stablehlo.dynamic_slice", &PaddedEmitter::DynamicSlice},
      {"stablehlo.dynamic_update_slice", &PaddedEmitter::DynamicUpdateSlice},
      {"stablehlo.reduce", &PaddedEmitter::Reduce},
      {"stablehlo.reduce_window", &PaddedEmitter::ReduceWindow},
      {"stablehlo.select_and_scatter", &PaddedEmitter::SelectAndScatter},
      {"stablehlo.dot_general", &PaddedEmitter::Dot},
      {"stablehlo.convolution", &PaddedEmitter::Convolution},
      {"stablehlo.sort", &PaddedEmitter::Sort},
      {"stablehlo.gather", &PaddedEmitter::Gather},
      {"stablehlo.scatter", &PaddedEmitter::Scatter},
  };
  for (const Handler& handler : kHandlers) {
    if (handler.op == i.op) return (this->*handler.emit)(i);
  }
  if (i.op == "stablehlo.reshape") {
    Laid x = lay_.Reshape(At(i.operands[0]), ResultSizes(i));
    return Set(i.first_result, std::move(x));
  }
  if (i.op == "stablehlo.cholesky" || i.op == "stablehlo.triangular_solve") return Batched(i, 2);
  if (i.op == "stablehlo.fft") return Batched(i, static_cast<int64_t>(i.List("length = [").size()));
  static constexpr std::string_view kElementwise[] = {"abs",
                                                      "add",
                                                      "and",
                                                      "atan2",
                                                      "bitcast_convert",
                                                      "cbrt",
                                                      "ceil",
                                                      "clamp",
                                                      "compare",
                                                      "complex",
                                                      "convert",
                                                      "cosine",
                                                      "divide",
                                                      "exponential",
                                                      "floor",
                                                      "imag",
                                                      "is_finite",
                                                      "log",
                                                      "log_plus_one",
                                                      "logistic",
                                                      "maximum",
                                                      "minimum",
                                                      "multiply",
                                                      "negate",
                                                      "not",
                                                      "optimization_barrier",
                                                      "or",
                                                      "popcnt",
                                                      "power",
                                                      "real",
                                                      "remainder",
                                                      "rsqrt",
                                                      "select",
                                                      "shift_left",
                                                      "sign",
                                                      "sine",
                                                      "sqrt",
                                                      "subtract",
                                                      "tan",
                                                      "tanh",
                                                      "xor",
                                                      "count_leading_zeros",
                                                      "exponential_minus_one",
                                                      "round_nearest_even",
                                                      "shift_right_arithmetic",
                                                      "shift_right_logical"};
  const std::string_view op = i.op;
  const bool chlo = op.starts_with("chlo.");
  if (!i.has_region && (chlo || (op.starts_with("stablehlo.") &&
                                 std::ranges::count(kElementwise, op.substr(std::string_view("stablehlo.").size())))))
    return Elementwise(i);
  RefusePadding(i.op, "there is no rule for it");
}

namespace {

PaddedType PaddedTypeOf(const SymbolicType& type, const std::vector<Polynomial>& box, std::span<const int64_t> bucket) {
  PaddedType padded{box, {type.dtype, {}}, type.is_static()};
  for (const Polynomial& size : padded.is_static ? type.dims : box) padded.type.dims.push_back(size.At(bucket));
  return padded;
}

}  // namespace

PaddedProgram::PaddedProgram(std::shared_ptr<const SymbolicProgram> program, Ints bucket)
    : program_(std::move(program)), bucket_(std::move(bucket)) {
  for (int32_t id : program_->parameters()) {
    const SymbolicType& type = program_->TypeOf(id);
    parameters_.push_back(PaddedTypeOf(type, BoxOf(LinearAxes(type.dims)), bucket_));
  }
}

PaddedProgram::Emission PaddedProgram::Emit(Builder& b, std::span<const Value> inputs,
                                            std::span<const Value> symbols) const {
  PaddedEmitter emitter(*program_, b, bucket_, symbols);
  for (size_t p = 0; p < inputs.size(); ++p) {
    const int32_t id = program_->parameters()[p];
    const Axes axes = LinearAxes(program_->TypeOf(id).dims);
    emitter.Set(id, {b.Reshape(inputs[p], emitter.layouts().PaddedDims(axes)), axes});
  }
  for (const SymbolicProgram::Instruction& instruction : program_->instructions()) emitter.Emit(instruction);
  Emission emission;
  for (int32_t id : program_->results()) {
    const Laid& laid = emitter.At(id);
    emission.types.push_back(PaddedTypeOf(program_->TypeOf(id), BoxOf(laid.axes), bucket_));
    emission.values.push_back(b.Reshape(laid.value, emission.types.back().type.dims));
  }
  return emission;
}

}  // namespace tpu::hlo
