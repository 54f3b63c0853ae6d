// A symbolic program as one StableHLO module for all sizes: dimensions that depend on a symbol are "?".
//
// What a consumer of StableHLO refines to its own sizes (jax.export, stablehlo-refine-shapes); the plugins here take
// programs of fixed sizes.
#pragma once

#include <span>
#include <string>

#include "hlo/symbolic_program.h"

namespace tpu::hlo {

// Where a symbol's value is found: the size of a parameter's dimension, less `offset`.
struct SymbolSource {
  size_t parameter = 0;
  int64_t dim = 0, offset = 0;
};

// Throws BuildError where StableHLO has no form of an instruction for sizes that are not known.
std::string DynamicText(const SymbolicProgram& program, std::span<const SymbolSource> symbols);

}  // namespace tpu::hlo
