// Stacks of matrices [..., m, n], as the factorizations see them: [batch, m, n].
#pragma once

#include "lowering/lowering.h"

namespace tpu::lowering {

inline Ints StackDims(Value x) { return Ints(x.dims().begin(), x.dims().end() - 2); }

// `lead` followed by `tail`.
Ints Join(Ints lead, std::span<const int64_t> tail);

// [..., m, n] -> [batch, m, n], and back to the leading dimensions `lead` (of any trailing rank).
Value ToStack(Builder& b, Value x);
Value FromStack(Builder& b, Value x, const Ints& lead);
// Broadcasts the leading dimensions.
Value ExpandStack(Builder& b, Value x, const Ints& lead);

Value ConjTranspose(Builder& b, Value x);
Value Eye(Builder& b, int64_t rows, int64_t columns, DType dtype);
// i1[rows, columns]: column - row <= diagonal (>=), as torch.tril and triu count.
Value LowerMask(Builder& b, int64_t rows, int64_t columns, int64_t diagonal = 0);
Value Tril(Builder& b, Value x, int64_t diagonal = 0);
Value Triu(Builder& b, Value x, int64_t diagonal = 0);
// 0, 1, ... n - 1 as i32[1, n].
Value Places(Builder& b, int64_t n);
// BLAS and LAPACK rank complex numbers by |re| + |im|.
Value SizeOf(Builder& b, Value x);
// The main diagonal of each matrix: [..., min(m, n)].
Value Diagonal(Builder& b, Value x);

// LAPACK's getrf on [batch, m, n].
struct Lu {
  Value factors;      // L below the diagonal, U on and above it
  Value pivots;       // i32[batch, min(m, n)], from 1: row k changed places with row pivots[k]
  Value permutation;  // i32[batch, m]: row i of L U is row permutation[i] of the matrix
  Value info;         // i32[batch]: the first k with U[k, k] == 0, from 1; 0 if none
};
Lu Factorize(Builder& b, Value x, bool pivot);
// Rows of [batch, m, n] in the order of i32[batch, m].
Value TakeRowsOfEach(Builder& b, Value x, Value order);
Value InversePermutation(Builder& b, Value permutation);
// x with A x = y (or A^H x = y), from A's factors.
Value SolveFactorized(Builder& b, Value factors, Value permutation, Value y, bool adjoint);

// LAPACK's geqrf: {R above, reflectors below the diagonal; their factors tau [..., min(m, n)]}.
std::pair<Value, Value> Geqrf(Builder& b, Value x);
// The first `columns` columns of the product of the reflectors: [..., m, columns].
Value HouseholderProduct(Builder& b, Value reflectors, Value tau, int64_t columns);

}  // namespace tpu::lowering
