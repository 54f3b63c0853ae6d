// A symbolic program made for a bucket of sizes: arrays are padded to the bucket's, the true sizes are run-time scalars.
//
// The true elements of every result are those of the exact program: padding is kept out of sums, products, sorts and
// scatters, and cut off or moved where elements are joined or counted from an end. What cannot be expressed so throws
// BuildError.
#pragma once

#include "hlo/padded_layout.h"
#include "hlo/symbolic_program.h"

namespace tpu::hlo {

// A parameter or result in a bucket: its box (padded_layout.h) of true sizes, and its padded type.
struct PaddedType {
  std::vector<Polynomial> box;
  Type type;
  bool is_static = true;  // then the type is the program's own
};

class PaddedProgram {
 public:
  PaddedProgram(std::shared_ptr<const SymbolicProgram> program, Ints bucket);

  struct Emission {
    std::vector<Value> values;
    std::vector<PaddedType> types;
  };

  const std::vector<PaddedType>& parameters() const { return parameters_; }
  // `inputs`: one a parameter, of its padded type. `symbols`: i64 scalars.
  Emission Emit(Builder& b, std::span<const Value> inputs, std::span<const Value> symbols) const;

 private:
  std::shared_ptr<const SymbolicProgram> program_;
  Ints bucket_;
  std::vector<PaddedType> parameters_;
};

}  // namespace tpu::hlo
