// The protobuf wire format, as much as we need: three field types to write, all of them to read. No library, no schema.
// For files of this folder only.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tpu::pjrt {

class WireWriter {
 public:
  void Varint(int field, int64_t value) {
    Raw(static_cast<uint64_t>(field) << 3);
    Raw(static_cast<uint64_t>(value));
  }
  void Double(int field, double value) {
    Raw(static_cast<uint64_t>(field) << 3 | 1);
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<char>(bits >> (8 * i)));
  }
  void Bytes(int field, std::string_view value) {
    Raw(static_cast<uint64_t>(field) << 3 | 2);
    Raw(value.size());
    bytes_.append(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Raw(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

// Walks the fields of one message: `while (r.Next()) switch (r.field()) ...`. Stops at the end or at malformed bytes;
// never reads outside them. The bytes must outlive the reader.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  bool Next() {
    uint64_t tag;
    if (rest_.empty() || !Raw(tag)) return false;
    field_ = static_cast<int>(tag >> 3);
    number_ = 0;
    bytes_ = {};
    switch (tag & 7) {
      case 0: return Raw(number_);
      case 1: return Fixed(8);
      case 2: {
        uint64_t size;
        if (!Raw(size) || size > rest_.size()) return false;
        bytes_ = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return true;
      }
      case 5: return Fixed(4);
    }
    return false;
  }
  int field() const { return field_; }
  int64_t number() const { return static_cast<int64_t>(number_); }
  std::string_view bytes() const { return bytes_; }

  // Calls f with each number of a repeated field, packed or not.
  template <typename F>
  void ForEachNumber(F f) const {
    if (bytes_.data() == nullptr) return f(number());
    WireReader packed(bytes_);
    for (uint64_t value; !packed.rest_.empty() && packed.Raw(value);) f(static_cast<int64_t>(value));
  }

 private:
  bool Raw(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool Fixed(size_t size) {
    if (size > rest_.size()) return false;
    std::memcpy(&number_, rest_.data(), size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
  int field_ = 0;
  uint64_t number_ = 0;
  std::string_view bytes_;
};

}  // namespace tpu::pjrt
