// A compiled graph for a range of sizes: one program, arrays padded to the range's end, true sizes as run-time numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "aten/graph_capture.h"
#include "hlo/padded_program.h"

namespace tpu::aten {

class BucketedGraph {
 public:
  using Values = CompiledGraph::Values;

  // The sizes that a program is for: one symbol each.
  struct Range {
    hlo::Ints low, high;
  };

  // Captures the function at several sizes of the range. Throws hlo::BuildError, or raises, where what it does cannot be
  // padded, or is not one program for all of them.
  static std::unique_ptr<BucketedGraph> Build(const std::string& name, runtime::Device& device,
                                              const CompiledGraph::Function& function, const Values& arguments,
                                              const CompiledGraph::Symbolic& symbolic, const Range& range);

  // Null when an argument's geometry is not the one that its symbols say.
  std::optional<Values> Run(const Values& arguments, const GraphArguments& reading, const hlo::Ints& symbols,
                            const std::vector<bool>& host_results);
  bool stale() const { return first_->stale(); }

 private:
  class Maker;
  struct Geometry {
    std::vector<hlo::Polynomial> sizes, strides;
    bool Fits(const at::Tensor& tensor, const hlo::Ints& symbols) const;
  };
  struct Result {
    CapturedGraph::Result at_first;
    hlo::Polynomial number, offset;
    std::vector<hlo::Polynomial> sizes, strides;
  };
  struct Output {
    hlo::PaddedType padded;
    std::vector<hlo::Polynomial> dims;
  };

  runtime::ValuePtr PaddedInput(const at::Tensor& tensor, const hlo::PaddedType& type, const hlo::Ints& symbols) const;
  void Store(const c10::StorageImpl& storage, int output, runtime::ValuePtr value, const hlo::Ints& symbols) const;

  std::string name_;
  runtime::Device* device_ = nullptr;
  hlo::Ints low_;                         // smaller sizes need the exact program
  std::unique_ptr<CapturedGraph> first_;  // at the first sample: what does not depend on the sizes
  runtime::OpPtr op_;                     // null when there is nothing to compute; takes the symbols after the inputs
  std::vector<hlo::PaddedType> inputs_;
  std::vector<Output> outputs_;
  std::vector<std::optional<Geometry>> geometries_;  // per argument
  std::vector<hlo::Polynomial> storages_;            // bytes
  std::vector<Result> results_;
  std::vector<hlo::Polynomial> words_;  // drawn from each generator
  hlo::Polynomial rng_words_;           // and from the default one
};

}  // namespace tpu::aten
