#include "hlo/symbolic_program.h"

#include <algorithm>
#include <cmath>

#include "hlo/builder_text.h"

namespace tpu::hlo {
namespace {

using Piece = SymbolicProgram::Piece;
using Kind = Piece::Kind;

[[noreturn]] void Refuse(const std::string& message) { throw BuildError(message, Code::kUnimplemented); }

int32_t ReadId(std::string_view text, size_t at) {
  int32_t id;
  std::memcpy(&id, text.data() + at, 4);
  return id;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWord(char c) { return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.'; }

// Cuts an instruction's text at markers and integers.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {
    while (at_ < text_.size()) Step();
    EndLiteral();
  }
  std::vector<Piece> Take() { return std::move(pieces_); }

 private:
  void Step() {
    const char c = text_[at_];
    if (c == kUse || c == kArgument || c == kDefine) return Marker(c);
    const bool negative = c == '-' && at_ + 1 < text_.size() && IsDigit(text_[at_ + 1]);
    if ((IsDigit(c) || negative) && StartsNumber()) return Number();
    literal_ += c;
    ++at_;
  }

  // In "tensor<2x17xf32>" an x stands between numbers; a digit after any other letter belongs to a name.
  bool StartsNumber() const {
    if (literal_ == "x") return !pieces_.empty() && pieces_.back().kind == Kind::kNumber;
    if (literal_.empty()) return pieces_.empty() || pieces_.back().kind != Kind::kNumber;
    return !IsWord(literal_.back());
  }

  void Number() {
    size_t end = at_ + 1;
    while (end < text_.size() && IsDigit(text_[end])) ++end;
    int64_t value = 0;
    const std::string_view digits = text_.substr(at_, end - at_);
    const bool fits = std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc();
    if (!fits || (end < text_.size() && text_[end] == '.')) {
      literal_ += digits;
    } else {
      EndLiteral();
      pieces_.push_back({Kind::kNumber, std::string(digits), value});
    }
    at_ = end;
  }

  void Marker(char c) {
    EndLiteral();
    const Kind kind = c == kUse ? Kind::kUse : c == kDefine ? Kind::kDefine : Kind::kArgument;
    Piece piece{kind, {}, {}, ReadId(text_, at_ + 1), 1};
    at_ += 5;
    if (c == kDefine) {
      piece.count = ReadId(text_, at_);
      at_ += 4;
    }
    pieces_.push_back(std::move(piece));
  }

  void EndLiteral() {
    if (!literal_.empty()) pieces_.push_back({Kind::kLiteral, std::move(literal_), {}});
    literal_.clear();
  }

  std::string_view text_;
  std::string literal_;
  std::vector<Piece> pieces_;
  size_t at_ = 0;
};

std::string OpOf(const std::string& text) {
  size_t begin = text[0] == '"' ? 1 : 0, end = begin;
  while (end < text.size() && IsWord(text[end])) ++end;
  return text.substr(begin, end - begin);
}

template <typename T>
std::vector<double> FromBytes(const std::string& bytes) {
  std::vector<double> elements;
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    elements.push_back(static_cast<double>(value));
  }
  return elements;
}

// "0x0700..." of Builder::ConstBytes.
std::vector<double> FromHex(const std::string& hex, DType dtype) {
  std::string bytes;
  for (size_t at = 3; at + 1 < hex.size(); at += 2) {
    int byte = 0;
    std::from_chars(hex.data() + at, hex.data() + at + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  switch (dtype) {
    case DType::kI32: return FromBytes<int32_t>(bytes);
    case DType::kI64: return FromBytes<int64_t>(bytes);
    case DType::kF32: return FromBytes<float>(bytes);
    case DType::kF64: return FromBytes<double>(bytes);
    default: Refuse("a constant that depends on a size");
  }
}

// "1.0" or "[1, 2]" of "... dense<[1, 2]> : ...".
std::vector<double> ElementsOf(const std::string& text, DType dtype) {
  const size_t begin = text.find("dense<") + 6, end = text.find("> : ", begin);
  std::string list = text.substr(begin, end - begin);
  if (list.starts_with("\"0x")) {
    list.pop_back();
    return FromHex(list, dtype);
  }
  std::erase_if(list, [](char c) { return c == '[' || c == ']' || c == ' '; });
  std::vector<double> elements;
  for (size_t at = 0; at < list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    double value = 0;
    const auto parsed = std::from_chars(list.data() + at, list.data() + comma, value);
    if (parsed.ec != std::errc() || parsed.ptr != list.data() + comma) Refuse("a constant that depends on a size");
    elements.push_back(value);
    at = comma + 1;
  }
  return elements;
}

bool IsWhole(double value) { return std::abs(value) < 0x1p53 && std::nearbyint(value) == value; }

}  // namespace

bool SymbolicType::is_static() const {
  return std::all_of(dims.begin(), dims.end(), [](const Polynomial& d) { return d.is_constant(); });
}

std::optional<size_t> SymbolicProgram::Instruction::Find(std::string_view label) const {
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].kind == Kind::kLiteral && pieces[i].text.find(label) != std::string::npos) return i;
  }
  return std::nullopt;
}

std::vector<Polynomial> SymbolicProgram::Instruction::List(std::string_view label) const {
  const std::optional<size_t> start = Find(label);
  if (!start) return {};
  const std::string& text = pieces[*start].text;
  if (!text.ends_with(label)) return {};  // "[]"
  const char close = label.back() == '[' ? ']' : '>';
  std::vector<Polynomial> list;
  for (size_t i = *start + 1; i < pieces.size(); ++i) {
    if (pieces[i].kind == Kind::kNumber) {
      list.push_back(pieces[i].number);
    } else if (pieces[i].text.find(close) != std::string::npos) {
      break;
    }
  }
  return list;
}

Ints SymbolicProgram::Instruction::Numbers(std::string_view label) const {
  Ints numbers;
  for (const Polynomial& p : List(label)) {
    if (!p.is_constant()) Refuse(op + ": " + std::string(label) + " depends on a size");
    numbers.push_back(p.constant());
  }
  return numbers;
}

std::vector<SymbolicProgram::Range> SymbolicProgram::Instruction::Ranges() const {
  std::vector<Range> ranges;
  std::vector<Polynomial> numbers;
  bool inside = false;
  for (const Piece& piece : pieces) {
    if (piece.kind == Kind::kNumber && inside) numbers.push_back(piece.number);
    if (piece.kind != Kind::kLiteral) continue;
    const bool ends = piece.text.find(']') != std::string::npos;
    if (inside && (ends || piece.text == ", ")) {
      if (numbers.size() >= 2) ranges.push_back({numbers[0], numbers[1], 1});
      if (numbers.size() == 3) ranges.back().stride = numbers[2].constant();
      numbers.clear();
    }
    if (ends && inside) break;
    inside = inside || piece.text == " [";
  }
  return ranges;
}

class SymbolicProgram::Fitter {
 public:
  Fitter(const Samples& points, std::span<const std::unique_ptr<Builder>> samples,
         std::span<const std::vector<Value>> results)
      : points_(points), samples_(samples), results_(results) {}

  std::shared_ptr<SymbolicProgram> Fit() {
    const Builder& first = *samples_[0];
    program_->parameters_ = first.parameters_;
    program_->types_.resize(first.values_.size());
    for (int32_t id : program_->parameters_) FitType(id);
    for (Value v : results_[0]) program_->results_.push_back(v.id());
    std::vector<std::vector<const Builder::Instruction*>> live;
    for (size_t k = 0; k < samples_.size(); ++k) {
      live.push_back(samples_[k]->Live(*samples_[k]->scopes_[0], results_[k]));
      const bool same = live[k].size() == live[0].size() && samples_[k]->parameters_ == first.parameters_ &&
                        results_[k].size() == results_[0].size();
      if (!same) {
        Refuse("the program is another for another size: " + std::to_string(live[0].size()) + " instructions, then " +
               std::to_string(live[k].size()));
      }
      for (size_t r = 0; r < results_[k].size(); ++r) {
        if (results_[k][r].id() != program_->results_[r]) Refuse("the program's results are others for another size");
      }
    }
    for (size_t i = 0; i < live[0].size(); ++i) {
      std::vector<const Builder::Instruction*> same;
      for (const auto& list : live) same.push_back(list[i]);
      program_->instructions_.push_back(FitInstruction(same));
    }
    return program_;
  }

 private:
  Polynomial FitNumber(const std::vector<int64_t>& values, const std::string& what) const {
    std::optional<Polynomial> fitted = points_.Fit(values);
    if (!fitted) Refuse(what + ": a number that is no polynomial in the sizes");
    return *fitted;
  }

  void FitType(int32_t id) {
    SymbolicType& type = program_->types_.at(id);
    type.dtype = samples_[0]->TypeOf(id).dtype;
    const size_t rank = samples_[0]->TypeOf(id).dims.size();
    for (size_t d = 0; d < rank; ++d) {
      std::vector<int64_t> sizes;
      for (const auto& sample : samples_) {
        const Type& other = sample->TypeOf(id);
        if (other.dims.size() != rank || other.dtype != type.dtype)
          Refuse("a value is of another rank for another size");
        sizes.push_back(other.dims[d]);
      }
      type.dims.push_back(FitNumber(sizes, "a dimension"));
    }
  }

  Instruction FitInstruction(const std::vector<const Builder::Instruction*>& same) {
    const Builder::Instruction& first = *same[0];
    Instruction made;
    made.op = OpOf(first.text);
    made.location = first.location;
    made.operands = first.uses;
    made.first_result = first.first_result;
    made.result_count = first.result_count;
    if (first.has_effect) Refuse(made.op + " has an effect");
    for (int32_t i = 0; i < first.result_count; ++i) FitType(first.first_result + i);
    const bool equal = std::all_of(same.begin(), same.end(), [&](const auto* i) { return i->text == first.text; });
    for (const auto* other : same) {
      if (other->uses != first.uses || other->first_result != first.first_result)
        Refuse(made.op + ": other operands for another size");
    }
    if (made.op == "stablehlo.constant" && !equal) {
      FitConstant(same, made);
      return made;
    }
    made.pieces = Splitter(first.text).Take();
    if (!equal) FitPieces(same, made);
    FindRegions(made);
    return made;
  }

  void FitPieces(const std::vector<const Builder::Instruction*>& same, Instruction& made) const {
    std::vector<std::vector<Piece>> others;
    for (const auto* other : same) others.push_back(Splitter(other->text).Take());
    for (size_t p = 0; p < made.pieces.size(); ++p) {
      Piece& piece = made.pieces[p];
      std::vector<int64_t> values;
      for (const auto& other : others) {
        const bool fits = other.size() == made.pieces.size() && other[p].kind == piece.kind &&
                          other[p].id == piece.id && other[p].count == piece.count &&
                          (piece.kind != Kind::kLiteral || other[p].text == piece.text);
        if (!fits) Refuse(made.op + ": not the same instruction for another size");
        if (piece.kind == Kind::kNumber) values.push_back(other[p].number.constant());
      }
      if (piece.kind == Kind::kNumber) piece.number = FitNumber(values, made.op);
    }
  }

  void FindRegions(Instruction& made) {
    int depth = 0;
    for (const Piece& piece : made.pieces) {
      if (piece.kind == Kind::kLiteral) {
        for (size_t i = 0; i < piece.text.size(); ++i) {
          if (piece.text.compare(i, 2, "{\n") == 0) ++depth;
          if (piece.text[i] == '}' && depth > 0 && RegionEnds(piece.text, i)) --depth;
        }
        made.has_region = made.has_region || depth > 0;
      } else if (depth > 0 && piece.kind == Kind::kNumber) {
        made.static_region = made.static_region && piece.number.is_constant();
      } else if (piece.kind == Kind::kDefine || piece.kind == Kind::kArgument) {
        for (int32_t i = 0; i < piece.count; ++i) FitType(piece.id + i);
      }
    }
  }

  // A region's closing brace stands alone at a line's beginning.
  static bool RegionEnds(const std::string& text, size_t at) {
    while (at > 0 && text[at - 1] == ' ') --at;
    return at > 0 && text[at - 1] == '\n';
  }

  void FitConstant(const std::vector<const Builder::Instruction*>& same, Instruction& made) const {
    const SymbolicType& type = program_->types_.at(made.first_result);
    std::vector<std::vector<double>> values;
    for (const auto* other : same) values.push_back(ElementsOf(other->text, type.dtype));
    if (!type.is_static()) Refuse("a constant whose length depends on a size");
    for (size_t e = 0; e < values[0].size(); ++e) {
      std::vector<double> element;
      for (const auto& list : values) element.push_back(list.at(e));
      made.elements.push_back(FitElement(element, type.dtype));
    }
  }

  // A whole number, or a small one over a whole number.
  Element FitElement(const std::vector<double>& values, DType dtype) const {
    if (std::all_of(values.begin(), values.end(), IsWhole)) {
      std::vector<int64_t> whole;
      for (double v : values) whole.push_back(static_cast<int64_t>(v));
      if (auto fitted = points_.Fit(whole)) return {*fitted};
    }
    for (int64_t numerator : {1, 2, -1, -2, 4}) {
      std::vector<int64_t> divisors;
      for (double v : values) {
        const double divisor = std::nearbyint(static_cast<double>(numerator) / v);
        const double back = static_cast<double>(numerator) / divisor;
        const bool same = dtype == DType::kF64 ? back == v : static_cast<float>(back) == static_cast<float>(v);
        if (v == 0 || !IsFloat(dtype) || IsHalf(dtype) || !same) break;
        divisors.push_back(static_cast<int64_t>(divisor));
      }
      if (divisors.size() != values.size()) continue;
      if (auto fitted = points_.Fit(divisors)) return {numerator, *fitted};
    }
    Refuse("a constant that depends on a size, in no simple way");
  }

  const Samples& points_;
  std::span<const std::unique_ptr<Builder>> samples_;
  std::span<const std::vector<Value>> results_;
  std::shared_ptr<SymbolicProgram> program_ = std::make_shared<SymbolicProgram>();
};

std::shared_ptr<const SymbolicProgram> SymbolicProgram::Fit(const Samples& points,
                                                            std::span<const std::unique_ptr<Builder>> samples,
                                                            std::span<const std::vector<Value>> results) {
  return Fitter(points, samples, results).Fit();
}

}  // namespace tpu::hlo
