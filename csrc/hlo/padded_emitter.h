// One emission of a padded program. Internal to padded_program.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "hlo/padded_program.h"

namespace tpu::hlo {

class PaddedEmitter {
 public:
  using Instruction = SymbolicProgram::Instruction;
  using Piece = SymbolicProgram::Piece;

  PaddedEmitter(const SymbolicProgram& program, Builder& b, std::span<const int64_t> bucket,
                std::span<const Value> symbols)
      : program_(program), b_(b), lay_(b, bucket, symbols) {}

  Layouts& layouts() { return lay_; }
  void Set(int32_t id, Laid laid) { known_.insert_or_assign(id, std::move(laid)); }
  const Laid& At(int32_t id) const { return known_.at(id); }
  void Emit(const Instruction& instruction);

 private:
  using Sizes = std::vector<Polynomial>;

  // The instruction's own text at the bucket's sizes on these operands.
  std::vector<Value> Instantiate(const Instruction& i, std::span<const Laid> operands);
  void SetResults(const Instruction& i, std::span<const Value> values, const Axes& axes);
  std::vector<Laid> Operands(const Instruction& i) const;
  const Sizes& ResultSizes(const Instruction& i, int32_t r = 0) const {
    return program_.TypeOf(i.first_result + r).dims;
  }
  Type PaddedResult(const Instruction& i, int32_t r = 0) const;

  bool DoesNothing(const Instruction& i) const;
  void Constant(const Instruction& i);
  void Elementwise(const Instruction& i);
  // Every operand and result is independent along the dimensions before the last `fixed`, which must be static.
  void Batched(const Instruction& i, int64_t fixed);
  // padded_shape.cc
  void Iota(const Instruction& i);
  void Broadcast(const Instruction& i);
  void Transpose(const Instruction& i);
  void Slice(const Instruction& i);
  void Concat(const Instruction& i);
  void Pad(const Instruction& i);
  void Reverse(const Instruction& i);
  void DynamicSlice(const Instruction& i);
  void DynamicUpdateSlice(const Instruction& i);
  Value Start(Value start, const Polynomial& size, const Polynomial& taken);
  // padded_reduce.cc
  void Reduce(const Instruction& i);
  void ReduceWindow(const Instruction& i);
  void SelectAndScatter(const Instruction& i);
  void Dot(const Instruction& i);
  void Convolution(const Instruction& i);
  void Sort(const Instruction& i);
  // padded_index.cc
  void Gather(const Instruction& i);
  void Scatter(const Instruction& i);

  const SymbolicProgram& program_;
  Builder& b_;
  Layouts lay_;
  std::unordered_map<int32_t, Laid> known_;
};

[[noreturn]] void RefusePadding(const std::string& op, const std::string& why);

}  // namespace tpu::hlo
