// Arrays of the device as host memory, for a transport that moves host memory.
//
// On the CPU plugin both ways are free of copies: the memory of a ready buffer is read where it is, and results are
// written into memory that the plugin allocated for them. Elsewhere the bytes are copied.
// Threads: a collective's own; Await blocks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"
#include "runtime/value.h"

namespace tpu::distributed {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

// Row-major bytes of a Value, which it keeps alive.
class HostInput {
 public:
  // Blocks until the value is there; its error if it failed.
  static Result<HostInput> Await(runtime::ValuePtr value);
  ConstBytes bytes() const { return bytes_; }

 private:
  runtime::ValuePtr value_;
  std::vector<std::byte> copy_;
  ConstBytes bytes_;
};

// Memory for a pending Value's contents.
class HostOutput {
 public:
  static Result<HostOutput> Create(runtime::ValuePtr value);
  Bytes bytes() const { return bytes_; }
  // Makes the value ready with what the memory holds now.
  Status Fulfil();

 private:
  runtime::ValuePtr value_;
  pjrt::Buffer buffer_;
  std::vector<std::byte> copy_;
  Bytes bytes_;
};

size_t SizeBytes(const runtime::Type& type);

}  // namespace tpu::distributed
