#include "hlo/dynamic_program.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "hlo/builder_text.h"

namespace tpu::hlo {

using Piece = SymbolicProgram::Piece;
using Instruction = SymbolicProgram::Instruction;
using Sizes = std::vector<Polynomial>;

class DynamicEmitter {
 public:
  DynamicEmitter(const SymbolicProgram& program, std::span<const SymbolSource> symbols) : program_(program) {
    for (int32_t id : program_.parameters()) known_.emplace(id, b_.Parameter(TypeOf(program_.TypeOf(id))));
    for (const SymbolSource& source : symbols) symbols_.push_back(Size(source));
  }

  std::string Text() {
    for (const Instruction& instruction : program_.instructions()) Emit(instruction);
    std::vector<Value> results;
    for (int32_t id : program_.results()) results.push_back(known_.at(id));
    return b_.Finish(results);
  }

 private:
  static Type TypeOf(const SymbolicType& type) {
    Type made{type.dtype, {}};
    for (const Polynomial& d : type.dims) made.dims.push_back(d.is_constant() ? d.constant() : kDynamic);
    return made;
  }
  Type ResultType(const Instruction& i) const { return TypeOf(program_.TypeOf(i.first_result)); }
  const Sizes& ResultSizes(const Instruction& i) const { return program_.TypeOf(i.first_result).dims; }

  Value Size(const SymbolSource& source) {
    const Value parameter = known_.at(program_.parameters().at(source.parameter));
    hlo::Text text(b_, "stablehlo.get_dimension_size ");
    const Type result{DType::kI32, {}};
    text << parameter << ", dim = " << source.dim;
    text.Signature(std::span(&parameter, 1), result);
    return b_.Cast(b_.Emit(std::move(text), result), DType::kI64) - static_cast<double>(source.offset);
  }

  // The number, an i64 scalar.
  Value Number(const Polynomial& number) {
    if (const auto it = numbers_.find(number); it != numbers_.end()) return it->second;
    Value sum = b_.ConstInt(0);
    for (const auto& [exponents, coefficient] : number.terms()) {
      Value term = b_.ConstInt(coefficient);
      for (size_t s = 0; s < symbols_.size(); ++s) {
        for (int e = 0; e < exponents[s]; ++e) term = b_.Mul(term, symbols_[s]);
      }
      sum = b_.Add(sum, term);
    }
    return numbers_.emplace(number, sum).first->second;
  }

  // The numbers, an i64 array.
  Value Numbers(std::span<const Polynomial> numbers) {
    if (numbers.empty()) return b_.ConstInts(Ints{});
    std::vector<Value> elements;
    for (const Polynomial& number : numbers) elements.push_back(b_.Reshape(Number(number), Ints{1}));
    return elements.size() == 1 ? elements[0] : b_.Concat(elements, 0);
  }

  Value Operand(const Instruction& i, size_t k) const { return known_.at(i.operands.at(k)); }

  // An operation of one result.
  void Define(const Instruction& i, std::string_view op, const std::vector<Value>& operands,
              std::string_view attributes = "") {
    hlo::Text text(b_, op);
    text << ' ';
    text.Values(operands) << attributes;
    const Type result = ResultType(i);
    text.Signature(operands, result);
    known_.insert_or_assign(i.first_result, b_.Emit(std::move(text), result));
  }

  void Emit(const Instruction& i) {
    b_.SetLocation(i.location);
    const bool shaped = !program_.TypeOf(i.first_result).is_static();
    if (i.op == "stablehlo.constant" && (shaped || !i.elements.empty())) return Constant(i);
    if (shaped && i.op == "stablehlo.iota") {
      const std::string dim = ", dim = " + std::to_string(i.pieces.at(1).number.constant());
      return Define(i, "stablehlo.dynamic_iota", {Numbers(ResultSizes(i))}, dim);
    }
    if (shaped && i.op == "stablehlo.broadcast_in_dim") {
      const std::string dims = ", dims = " + ToString(i.Numbers("dims = ["));
      return Define(i, "stablehlo.dynamic_broadcast_in_dim", {Operand(i, 0), Numbers(ResultSizes(i))}, dims);
    }
    if (shaped && i.op == "stablehlo.reshape")
      return Define(i, "stablehlo.dynamic_reshape", {Operand(i, 0), Numbers(ResultSizes(i))});
    if (!HasSymbolicAttribute(i)) return Instantiate(i);
    if (i.op == "stablehlo.slice") return Slice(i);
    if (i.op == "stablehlo.pad") {
      return Define(i, "stablehlo.dynamic_pad",
                    {Operand(i, 0), Operand(i, 1), Numbers(i.List("low = [")), Numbers(i.List("high = [")),
                     Numbers(i.List("interior = ["))});
    }
    if (i.op == "stablehlo.gather") return Gather(i);
    throw BuildError(i.op + ": StableHLO has no form of it whose attributes depend on a size", Code::kUnimplemented);
  }

  // Calls f with each piece and whether it is inside a tensor's type.
  template <typename F>
  static void ForPieces(const Instruction& i, const F& f) {
    bool in_type = false;
    for (const Piece& piece : i.pieces) {
      f(piece, in_type);
      if (piece.kind != Piece::Kind::kLiteral) continue;
      for (size_t at = 0; at < piece.text.size(); ++at) {
        if (piece.text.compare(at, 7, "tensor<") == 0) in_type = true;
        if (piece.text[at] == '>') in_type = false;
      }
    }
  }

  static bool HasSymbolicAttribute(const Instruction& i) {
    bool found = false;
    ForPieces(i, [&](const Piece& piece, bool in_type) {
      found = found || (piece.kind == Piece::Kind::kNumber && !in_type && !piece.number.is_constant());
    });
    return found;
  }

  // The instruction's own text, with "?" in its types.
  void Instantiate(const Instruction& i) {
    hlo::Text text(b_, "");
    std::unordered_map<int32_t, int32_t> inner;  // ids that the instruction's regions define
    const auto define = [&](const Piece& piece) {
      int32_t first = -1;
      for (int32_t k = 0; k < piece.count; ++k) {
        const int32_t id = b_.NewValue(TypeOf(program_.TypeOf(piece.id + k)));
        inner.emplace(piece.id + k, id);
        if (k == 0) first = id;
      }
      return first;
    };
    ForPieces(i, [&](const Piece& piece, bool) {
      switch (piece.kind) {
        case Piece::Kind::kLiteral: text << piece.text; break;
        case Piece::Kind::kNumber: text << (piece.number.is_constant() ? std::string_view(piece.text) : "?"); break;
        case Piece::Kind::kUse:
          if (const auto it = inner.find(piece.id); it != inner.end()) {
            AppendMarker(text.text, kUse, it->second);
          } else {
            text << known_.at(piece.id);
          }
          break;
        case Piece::Kind::kArgument: AppendMarker(text.text, kArgument, define(piece)); break;
        case Piece::Kind::kDefine:
          AppendMarker(text.text, kDefine, define(piece));
          text.text.append(reinterpret_cast<const char*>(&piece.count), 4);
          break;
      }
    });
    std::vector<Type> types;
    for (int32_t r = 0; r < i.result_count; ++r) types.push_back(TypeOf(program_.TypeOf(i.first_result + r)));
    const std::vector<Value> values = b_.Emit(std::move(text), types);
    for (int32_t r = 0; r < i.result_count; ++r) known_.insert_or_assign(i.first_result + r, values[r]);
  }

  void Constant(const Instruction& i) {
    const SymbolicType& type = program_.TypeOf(i.first_result);
    if (i.elements.empty()) {
      // One value for all elements: the text of "stablehlo.constant dense<VALUE> : type".
      std::string text;
      for (const Piece& piece : i.pieces) text += piece.text;
      const size_t begin = text.find("dense<") + 6, end = text.rfind("> : ");
      const Value scalar = b_.Literal(text.substr(begin, end - begin), {type.dtype, {}});
      return Define(i, "stablehlo.dynamic_broadcast_in_dim", {scalar, Numbers(type.dims)}, ", dims = []");
    }
    std::vector<Value> values;
    for (const SymbolicProgram::Element& element : i.elements) {
      Value value = b_.Cast(Number(element.numerator), type.dtype);
      if (element.divisor != Polynomial(1)) value = value / b_.Cast(Number(element.divisor), type.dtype);
      values.push_back(type.dims.empty() ? value : b_.Reshape(value, Ints{1}));
    }
    known_.insert_or_assign(i.first_result, values.size() == 1 ? values[0] : b_.Concat(values, 0));
  }

  void Slice(const Instruction& i) {
    Sizes starts, limits, strides;
    for (const SymbolicProgram::Range& range : i.Ranges()) {
      starts.push_back(range.start);
      limits.push_back(range.limit);
      strides.emplace_back(range.stride);
    }
    Define(i, "stablehlo.real_dynamic_slice", {Operand(i, 0), Numbers(starts), Numbers(limits), Numbers(strides)});
  }

  // Its slice sizes become an operand; the dimension numbers stay as they are in the text.
  void Gather(const Instruction& i) {
    const Sizes sizes = i.List("slice_sizes = array<i64: ");
    std::string text;
    for (const Piece& piece : i.pieces) text += piece.text;
    const size_t begin = text.find("<{dimension_numbers"), end = text.find(", slice_sizes");
    if (sizes.empty() || begin == std::string::npos || end == std::string::npos)
      throw BuildError("stablehlo.gather: its text is not as expected", Code::kInternal);
    const std::vector<Value> operands = {Operand(i, 0), Operand(i, 1), Numbers(sizes)};
    hlo::Text made(b_, "\"stablehlo.dynamic_gather\"(");
    made.Values(operands) << ") " << std::string_view(text).substr(begin, end - begin) << "}>";
    const Type result = ResultType(i);
    made.Signature(operands, result);
    known_.insert_or_assign(i.first_result, b_.Emit(std::move(made), result));
  }

  const SymbolicProgram& program_;
  Builder b_;
  std::vector<Value> symbols_;
  std::unordered_map<int32_t, Value> known_;
  std::map<Polynomial, Value> numbers_;
};

std::string DynamicText(const SymbolicProgram& program, std::span<const SymbolSource> symbols) {
  return DynamicEmitter(program, symbols).Text();
}

}  // namespace tpu::hlo
