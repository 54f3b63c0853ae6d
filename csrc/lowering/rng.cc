// Philox 4x32-10 from elementary operations.
//
// The generator's state is {seed, offset}. Word i of an op is lane i % 4 of the block whose counter is offset / 4 + i / 4
// (64 bits in words 0 and 1, words 2 and 3 zero) under the key seed (low word first). Requests take words in order, so an
// op's numbers do not depend on how its requests are split.
#include <array>
#include <numbers>

#include "lowering/lowering.h"

namespace tpu::lowering {
namespace {

using Block = std::array<Value, 4>;  // ui32[n] each

Value Low(Builder& b, Value x) { return b.Cast(b.And(x, b.ConstInt(0xFFFFFFFF, DType::kU64)), DType::kU32); }
Value High(Builder& b, Value x) { return b.Cast(b.ShiftRightLogical(x, b.ConstInt(32, DType::kU64)), DType::kU32); }

// {high, low} word of the 64-bit product.
std::pair<Value, Value> WideProduct(Builder& b, Value x, int64_t factor) {
  Value product = b.Mul(b.Cast(x, DType::kU64), b.ConstInt(factor, DType::kU64));
  return {High(b, product), b.Mul(x, b.ConstInt(factor, DType::kU32))};
}

Block Philox(Builder& b, Value counter, Value seed) {
  Value zero = b.Full(counter.dims(), 0.0, DType::kU32);
  Block x{Low(b, counter), High(b, counter), zero, zero};
  Value key0 = Low(b, seed), key1 = High(b, seed);
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0) {
      key0 = b.Add(key0, b.ConstInt(0x9E3779B9, DType::kU32));
      key1 = b.Add(key1, b.ConstInt(0xBB67AE85, DType::kU32));
    }
    auto [high0, low0] = WideProduct(b, x[0], 0xD2511F53);
    auto [high1, low1] = WideProduct(b, x[2], 0xCD9E8D57);
    x = {b.Xor(b.Xor(high1, x[1]), key0), low1, b.Xor(b.Xor(high0, x[3]), key1), low0};
  }
  return x;
}

Value Element(Builder& b, Value x, int64_t i) { return b.Reshape(b.SliceDim(x, 0, i, i + 1), Ints{}); }

}  // namespace

Value Rng::Bits(std::span<const int64_t> dims) {
  Builder& b = *b_;
  int64_t count = hlo::NumElements(dims), first = used_;
  if (count == 0) return b.Full(dims, 0.0, DType::kU32);
  used_ += count;
  int64_t first_block = first / 4, blocks = (used_ + 3) / 4 - first_block;
  Value start = b.Add(b.Div(Element(b, state_, 1), b.ConstInt(4, DType::kU64)), b.ConstInt(first_block, DType::kU64));
  Block lanes = Philox(b, b.Add(b.Iota(blocks, DType::kU64), start), Element(b, state_, 0));
  for (Value& lane : lanes) lane = b.Unsqueeze(lane, 1);
  Value words = b.Flatten(b.Concat(lanes, 1));
  int64_t skipped = first - first_block * 4;
  return b.Reshape(b.SliceDim(words, 0, skipped, skipped + count), dims);
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

// sqrt(-2 log u) (cos, sin)(2 pi v): the first half of the results are the cosines. u is in (0, 1], with 32 bits in
// float32 so that the tails reach 6.6.
Value Rng::Normal(std::span<const int64_t> dims, DType dtype) {
  Builder& b = *b_;
  int64_t count = hlo::NumElements(dims);
  DType compute = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  if (count == 0) return b.Full(dims, 0.0, dtype);
  Ints half{(count + 1) / 2};
  Value u;
  if (compute == DType::kF64) {
    u = 1.0 - Uniform(half, compute);
  } else {
    u = b.Cast(Bits(half), compute) * 0x1p-32 + 0x1p-33;
  }
  Value radius = b.Sqrt(b.Log(u) * -2.0), angle = Uniform(half, compute) * (2 * std::numbers::pi);
  Value pairs = b.Concat(std::vector<Value>{radius * b.Cos(angle), radius * b.Sin(angle)}, 0);
  return b.Cast(b.Reshape(b.SliceDim(pairs, 0, 0, count), dims), dtype);
}

}  // namespace tpu::lowering
