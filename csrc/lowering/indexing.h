// Gathers and scatters along dimensions, prefix sums and index arithmetic: what the indexing lowerings share.
//
// Indices are in range unless a function says otherwise: XLA clamps a gather that is not and drops such an update.
#pragma once

#include <optional>
#include <string_view>

#include "lowering/lowering.h"

namespace tpu::lowering {

using Combine = Builder::Combine;
// Combinations for scatters: (old, update) to new.
Value TakeUpdate(Builder& b, Value old, Value update);
Value AddUpdate(Builder& b, Value old, Value update);

// A dimension index in [-rank, rank) to [0, rank).
int64_t WrapDim(int64_t dim, int64_t rank);
// [0, rank) without `dims`.
Ints OtherDims(int64_t rank, std::span<const int64_t> dims);
// A 0-d value as one of one element; anything else as it is.
Value AtLeast1D(Builder& b, Value x);
// 32 bits where every index into `size` elements fits them: they are what a TPU computes with.
Value Narrow(Builder& b, Value index, int64_t size);
// Negative indices counted from the end, and narrow.
Value WrapIndex(Builder& b, Value index, int64_t size);
// 0, 1, ... along `dim`, shaped so that it broadcasts against an array of `rank` dimensions: [1, ..., size, ..., 1].
Value IotaAlong(Builder& b, int64_t rank, int64_t dim, int64_t size, DType dtype = DType::kI32);
// The largest (smallest) value of a type; infinite for floats.
Value Highest(Builder& b, DType dtype);
Value Lowest(Builder& b, DType dtype);
// x[0], x[0] + x[1], ... of a 1-D array.
Value InclusiveSum(Builder& b, Value x);
// `x` in float32 where it is narrower, for sums.
Value Widened(Builder& b, Value x);

// x[..., index, ...] at dimension `dim`; `index` is 1-D.
Value SelectRows(Builder& b, Value x, int64_t dim, Value index);
// x[..., index[i], ...] combined with updates[..., i, ...] at dimension `dim`; `index` is 1-D.
Value ScatterRows(Builder& b, Value x, int64_t dim, Value index, Value updates, const Combine& combine);
// torch.scatter: x[i, index[i, j, k], k] combined with updates[i, j, k]; the ranks agree, and no other dimension of
// `index` exceeds that of `x` or `updates`.
Value ScatterAlong(Builder& b, Value x, int64_t dim, Value index, Value updates, const Combine& combine);

// A reduction into a tensor, as scatter_reduce and index_reduce define it: "sum", "prod", "mean", "amax", "amin"
// (scatter's "add" and "multiply" too). `scatter` combines its updates into its base at the op's indices.
using Scatterer = std::function<Value(Value base, Value updates, const Combine& combine)>;
Value ReduceInto(Builder& b, Value self, Value source, std::string_view reduce, bool include_self,
                 const Scatterer& scatter);

}  // namespace tpu::lowering
