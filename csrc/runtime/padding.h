// Arrays padded to a bucket's size: cutting, growing, and the ways from and to the host, none of which compiles a program
// for a size where the host can do it.
#pragma once

#include "runtime/value.h"

namespace tpu::runtime {

// The array itself, by a program that slices it. Recorded even under a Capture, as the contents exist.
ValuePtr Cut(const Padded& padded);
// The same array in a larger or smaller whole of these dims, by a program for this pair of dims.
Result<ValuePtr> Resized(const Padded& padded, const Ints& dims);
// `value`, read as the box, padded to `dims` on the host. Waits for it.
Result<ValuePtr> PaddedOnHost(Value& value, const Ints& box, const Ints& dims);
// Waits for the array and copies its row-major bytes.
Status ReadToHost(const Padded& padded, void* destination, size_t size_bytes);

// What padding made on the host is filled with: zero but in tests.
void SetPaddingByte(char byte);

}  // namespace tpu::runtime
