// Philox 4x32-10 from elementary operations.
//
// The generator's state is {seed, offset}. Word i of an op is lane i % 4 of the block whose counter is
// offset / 4 + i / 4 (64 bits in words 0 and 1, words 2 and 3 zero) under the key seed (low word first). Requests take
// words in order, so an op's numbers do not depend on how its requests are split.
//
// Every word computes its whole block and keeps one lane. That is four times the arithmetic, but purely elementwise:
// it fuses into what uses it. Interleaving four arrays of lanes instead took 5 times as long on CPU (4 million words:
// 193 ms against 36) and 14 s to compile for TPU v5e (against 2).
#include <array>
#include <limits>
#include <numbers>

#include "lowering/lowering.h"

namespace tpu::lowering {
namespace {

Value Word(Builder& b, int64_t value) { return b.ConstInt(value, DType::kU32); }
Value Low(Builder& b, Value x) { return b.Cast(b.And(x, b.ConstInt(0xFFFFFFFF, DType::kU64)), DType::kU32); }
Value High(Builder& b, Value x) { return b.Cast(b.ShiftRightLogical(x, b.ConstInt(32, DType::kU64)), DType::kU32); }

Value HighProduct(Builder& b, Value x, int64_t factor) {
  Value product = b.Mul(b.Cast(x, DType::kU64), b.ConstInt(factor, DType::kU64));
  return b.Cast(b.ShiftRightLogical(product, b.ConstInt(32, DType::kU64)), DType::kU32);
}

std::array<Value, 4> Philox(Builder& b, Value counter, Value seed) {
  constexpr int64_t kFactor0 = 0xD2511F53, kFactor1 = 0xCD9E8D57;
  Value zero = Word(b, 0);
  std::array<Value, 4> x{Low(b, counter), High(b, counter), zero, zero};
  Value key0 = Low(b, seed), key1 = High(b, seed);
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0) {
      key0 = b.Add(key0, Word(b, 0x9E3779B9));
      key1 = b.Add(key1, Word(b, 0xBB67AE85));
    }
    x = {b.Xor(b.Xor(HighProduct(b, x[2], kFactor1), x[1]), key0), b.Mul(x[2], Word(b, kFactor1)),
         b.Xor(b.Xor(HighProduct(b, x[0], kFactor0), x[3]), key1), b.Mul(x[0], Word(b, kFactor0))};
  }
  return x;
}

// first, first + 1, ... in row-major order, made in place so that no reshape comes between these numbers and their use.
Value Positions(Builder& b, std::span<const int64_t> dims, int64_t first) {
  bool wide = first + hlo::NumElements(dims) > std::numeric_limits<uint32_t>::max();
  DType dtype = wide ? DType::kU64 : DType::kU32;
  Value position = b.Full(dims, b.ConstInt(first, dtype));
  Ints strides = hlo::ContiguousStrides(dims);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] > 1) {
      Value along = b.Iota(dims, static_cast<int64_t>(d), dtype);
      position = b.Add(position, b.Mul(along, b.ConstInt(strides[d], dtype)));
    }
  }
  return position;
}

Value Element(Builder& b, Value x, int64_t i) { return b.Reshape(b.SliceDim(x, 0, i, i + 1), Ints{}); }

}  // namespace

Value Rng::Bits(std::span<const int64_t> dims) {
  Builder& b = *b_;
  int64_t count = hlo::NumElements(dims);
  if (count == 0) return b.Full(dims, 0.0, DType::kU32);
  Value position = Positions(b, dims, used_);
  used_ += count;
  auto like_position = [&](int64_t value) { return b.ConstInt(value, position.dtype()); };
  Value block = b.Cast(b.ShiftRightLogical(position, like_position(2)), DType::kU64);
  Value start = b.ShiftRightLogical(Element(b, state_, 1), b.ConstInt(2, DType::kU64));
  std::array<Value, 4> lanes = Philox(b, b.Add(block, start), Element(b, state_, 0));
  auto bit = [&](int64_t mask) { return b.Ne(b.And(position, like_position(mask)), like_position(0)); };
  Value odd = bit(1), late = bit(2);
  return b.Select(late, b.Select(odd, lanes[3], lanes[2]), b.Select(odd, lanes[1], lanes[0]));
}

Value Rng::Uniform(std::span<const int64_t> dims, DType dtype) {
  Builder& b = *b_;
  if (dtype != DType::kF64) {
    Value bits = b.ShiftRightLogical(Bits(dims), b.ConstInt(8, DType::kU32));
    return b.Cast(b.Mul(b.Cast(bits, DType::kF32), b.Const(0x1p-24, DType::kF32)), dtype);
  }
  Value high = b.Cast(b.ShiftRightLogical(Bits(dims), b.ConstInt(5, DType::kU32)), DType::kF64);
  Value low = b.Cast(b.ShiftRightLogical(Bits(dims), b.ConstInt(6, DType::kU32)), DType::kF64);
  return (high * 0x1p26 + low) * 0x1p-53;
}

// sqrt(-2 log u) cos(2 pi v), u in (0, 1]; in float32 u has 32 bits, so that the tails reach 6.6. The sines are not
// used: each would have to be moved to an element of its own.
Value Rng::Normal(std::span<const int64_t> dims, DType dtype) {
  Builder& b = *b_;
  DType compute = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  Value u = compute == DType::kF64 ? 1.0 - Uniform(dims, compute) : b.Cast(Bits(dims), compute) * 0x1p-32 + 0x1p-33;
  Value radius = b.Sqrt(b.Log(u) * -2.0), angle = Uniform(dims, compute) * (2 * std::numbers::pi);
  return b.Cast(b.Mul(radius, b.Cos(angle)), dtype);
}

}  // namespace tpu::lowering
