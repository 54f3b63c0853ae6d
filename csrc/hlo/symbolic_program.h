// A program for every size of its inputs: the same program made at several sizes, compared.
//
// Each number in which the samples differ becomes a polynomial in the sizes, which further samples confirm. A lowering may
// read a dimension as a plain number and do with it what it likes: what depends on the size shows up as a difference, and
// what is no polynomial throws BuildError.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hlo/builder.h"
#include "hlo/polynomial.h"

namespace tpu::hlo {

struct SymbolicType {
  DType dtype = DType::kF32;
  std::vector<Polynomial> dims;
  bool is_static() const;
};

class SymbolicProgram {
 public:
  struct Piece {
    enum class Kind : uint8_t { kLiteral, kNumber, kUse, kDefine, kArgument } kind;
    std::string text;  // of literals and numbers
    Polynomial number;
    int32_t id = -1, count = 0;  // of markers: as in builder_text.h
  };
  // numerator / divisor, in the constant's element type.
  struct Element {
    Polynomial numerator, divisor = 1;
  };
  // Of a slice, in one dimension.
  struct Range {
    Polynomial start, limit;
    int64_t stride = 1;
  };
  struct Instruction {
    std::string op;  // "stablehlo.add"
    std::vector<Piece> pieces;
    std::vector<int32_t> operands;  // in the order of the text, those that regions take from outside at the end
    int32_t first_result = 0, result_count = 0;
    std::string location;
    std::vector<Element> elements;  // of a constant that depends on the sizes
    bool static_region = true;      // nothing inside its regions depends on the sizes
    bool has_region = false;

    // The list of numbers after `label`, which ends with the opening bracket; `skip` such lists are passed over.
    std::vector<Polynomial> List(std::string_view label) const;
    std::vector<Range> Ranges() const;                         // " [0:17, 2:64:2]"
    Ints Numbers(std::string_view label) const;                // of numbers that are the same for all sizes
    std::optional<size_t> Find(std::string_view label) const;  // the piece that ends with the label, or contains it
  };

  // `samples[k]` was made at point k, with `results[k]`. Throws BuildError where they do not fit together.
  static std::shared_ptr<const SymbolicProgram> Fit(const Samples& points,
                                                    std::span<const std::unique_ptr<Builder>> samples,
                                                    std::span<const std::vector<Value>> results);

  const std::vector<Instruction>& instructions() const { return instructions_; }
  const SymbolicType& TypeOf(int32_t id) const { return types_.at(id); }
  const std::vector<int32_t>& parameters() const { return parameters_; }
  const std::vector<int32_t>& results() const { return results_; }

 private:
  class Fitter;
  std::vector<Instruction> instructions_;
  std::vector<SymbolicType> types_;
  std::vector<int32_t> parameters_, results_;
};

}  // namespace tpu::hlo
