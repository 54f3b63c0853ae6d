#include "aten/errors.h"

#include <c10/util/Exception.h>

#include <atomic>

namespace tpu::aten {
namespace {

std::atomic<int64_t> out_of_memory_count{0};

}  // namespace

int64_t OutOfMemoryCount() { return out_of_memory_count.load(std::memory_order_relaxed); }

void Raise(const Status& status) {
  switch (status.code()) {
    case Code::kOutOfRange: C10_THROW_ERROR(IndexError, status.message());
    case Code::kUnimplemented: C10_THROW_ERROR(NotImplementedError, status.message());
    case Code::kResourceExhausted:
      out_of_memory_count.fetch_add(1, std::memory_order_relaxed);
      C10_THROW_ERROR(OutOfMemoryError, status.message());
    default: C10_THROW_ERROR(Error, status.message());
  }
}

}  // namespace tpu::aten
