// Errors below the PyTorch layer: returned, never thrown. aten/errors.h turns them into PyTorch's exceptions.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace tpu {

enum class Code {
  kOk,
  kInvalidArgument,    // RuntimeError
  kOutOfRange,         // IndexError
  kResourceExhausted,  // torch.OutOfMemoryError
  kUnimplemented,      // NotImplementedError
  kNotFound,
  kUnavailable,
  kDeadlineExceeded,
  kInternal,
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

// A value or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit by design
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  T& operator*() & { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

#define TPU_CONCAT_INNER(a, b) a##b
#define TPU_CONCAT(a, b) TPU_CONCAT_INNER(a, b)
#define TPU_RETURN_IF_ERROR(expr) \
  do { \
    if (auto s_ = (expr); !s_.ok()) return s_; \
  } while (0)
#define TPU_ASSIGN_OR_RETURN(lhs, expr) TPU_ASSIGN_OR_RETURN_INNER(TPU_CONCAT(r_, __LINE__), lhs, expr)
#define TPU_ASSIGN_OR_RETURN_INNER(r, lhs, expr) \
  auto r = (expr); \
  if (!r.ok()) return r.status(); \
  lhs = std::move(r).value()

}  // namespace tpu
