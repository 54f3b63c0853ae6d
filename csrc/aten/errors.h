// The one place where a Status becomes a PyTorch exception.
#pragma once

#include <cstdint>
#include <utility>

#include "base/status.h"

namespace tpu::aten {

// Throws the exception that belongs to the code of `status`: IndexError, NotImplementedError, torch.OutOfMemoryError, and
// RuntimeError for the rest. `status` must not be ok.
[[noreturn]] void Raise(const Status& status);

// How many torch.OutOfMemoryError this process has raised.
int64_t OutOfMemoryCount();

inline void RaiseIfError(const Status& status) {
  if (!status.ok()) [[unlikely]]
    Raise(status);
}

template <typename T>
T ValueOrRaise(Result<T> result) {
  if (!result.ok()) [[unlikely]]
    Raise(result.status());
  return std::move(result).value();
}

}  // namespace tpu::aten
