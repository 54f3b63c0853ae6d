// One instruction's text while it is being written. Internal to the builder.
//
// Values are named only when the module is printed, so text holds markers instead of names: a marker byte, then the id
// in four bytes (a definition has its result count in four more).
#pragma once

#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "hlo/builder.h"

namespace tpu::hlo {

inline constexpr char kUse = '\x01', kDefine = '\x02', kArgument = '\x03';

[[noreturn]] void Fail(std::string_view op, std::string_view expected, std::string_view found);
// `dim` counted from the front; BuildError where it is out of range.
int64_t WrapDim(std::string_view op, int64_t dim, int64_t rank);
// Wrapped, sorted, without repetition; all of them when empty.
Ints WrapDims(std::string_view op, std::span<const int64_t> dims, int64_t rank);
std::string ToString(std::span<const int64_t> list);  // "[2, 3]"

inline void AppendInt(std::string& out, int64_t value) {
  char buffer[24];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}
void AppendType(std::string& out, const Type& type);
// The element as a StableHLO literal, rounded to the type.
void AppendElement(std::string& out, double value, DType dtype);
void AppendElement(std::string& out, std::complex<double> value, DType dtype);
void AppendElement(std::string& out, int64_t value, DType dtype);
void AppendQuoted(std::string& out, std::string_view text);
void AppendMarker(std::string& out, char marker, int32_t id);

class Text {
 public:
  Text(const Builder& builder, std::string_view op) : builder_(builder), op_(op) {
    text.reserve(96);
    text = op;
  }
  Text& operator<<(std::string_view part) {
    text += part;
    return *this;
  }
  Text& operator<<(const char* part) { return *this << std::string_view(part); }
  Text& operator<<(char part) {
    text += part;
    return *this;
  }
  Text& operator<<(int64_t value) {
    AppendInt(text, value);
    return *this;
  }
  Text& operator<<(bool value) { return *this << (value ? "true" : "false"); }
  Text& operator<<(const Type& type) {
    AppendType(text, type);
    return *this;
  }
  Text& operator<<(Value value);
  Text& operator<<(std::span<const int64_t> list);                           // "[0, 1]"
  Text& Array(std::span<const int64_t> list);                                // "array<i64: 0, 1>"
  Text& Pairs(std::span<const int64_t> low, std::span<const int64_t> high);  // "[[0, 0], [1, 2]]"
  Text& Values(std::span<const Value> values);                               // "%0, %1"
  // "(type, type)" of values; `-> type` of results.
  Text& Types(std::span<const Value> values);
  Text& Arrow(std::span<const Type> results);
  // " : (types) -> result"
  Text& Signature(std::span<const Value> operands, const Type& result);
  Text& Signature(std::span<const Value> operands, std::span<const Type> results);
  std::string_view op() const { return op_; }

  std::string text;
  std::vector<int32_t> uses;

 private:
  const Builder& builder_;
  std::string op_;
};

}  // namespace tpu::hlo
