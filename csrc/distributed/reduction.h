// Combining what the ranks of a group have contributed: the one place that knows what a ReduceOp means.
//
// Half types accumulate in float32 and are rounded once; contributions are combined in the order given, so ranks that
// combine the same ones get the same bits. Sums of integers wrap around; bool is a truth value.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/status.h"
#include "distributed/host_array.h"

namespace tpu::distributed {

enum class Reduction : uint8_t { kSum, kMean, kProduct, kMin, kMax, kAnd, kOr, kXor };

// Whether there is such a reduction of such elements; the Status says why not.
Status CheckReduction(Reduction reduction, DType dtype);

// out[i] = the reduction of sources[0][i], sources[1][i], ...; all have out's size. `out` may be one of them.
// kMean divides by the number of sources.
void Reduce(Reduction reduction, DType dtype, std::span<const ConstBytes> sources, Bytes out);

// out[i] = in[i] * factor, in the arithmetic of the type.
void Scale(DType dtype, double factor, ConstBytes in, Bytes out);

}  // namespace tpu::distributed
