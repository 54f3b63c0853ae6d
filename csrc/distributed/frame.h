// The first message of every collective, of one size whatever the collective: what the sender is doing, in words, and the
// data where there is little of it. So that ranks which do different things find out before any data has moved, and can
// say what each of them did.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "distributed/host_array.h"

namespace tpu::distributed {

constexpr size_t kFrameBytes = 2048;
constexpr size_t kFrameWords = 240;  // of text
constexpr size_t kFrameHeader = 32 + kFrameWords;
constexpr size_t kInlineBytes = kFrameBytes - kFrameHeader - 8;

class Frame {
 public:
  // `agreement`: the hash of what must be alike on all ranks. `payload` travels inside when it fits (IsInline).
  void Write(uint64_t agreement, uint64_t number, std::string_view words, ConstBytes payload);
  // Whether all of it has arrived in zeroed memory.
  bool complete() const;
  uint64_t agreement() const { return Word(0); }
  uint64_t number() const { return Word(1); }
  size_t payload_bytes() const { return Word(2); }
  std::string words() const;
  // The payload, when IsInline(payload_bytes()).
  ConstBytes payload() const { return std::span(bytes_).subspan(kFrameHeader, payload_bytes()); }
  Bytes bytes() { return bytes_; }

 private:
  uint64_t Word(size_t i) const;
  void SetWord(size_t i, uint64_t value);

  alignas(8) std::array<std::byte, kFrameBytes> bytes_{};
};

constexpr bool IsInline(size_t bytes) { return bytes <= kInlineBytes; }

}  // namespace tpu::distributed
