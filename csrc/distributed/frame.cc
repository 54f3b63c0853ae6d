#include "distributed/frame.h"

#include <algorithm>
#include <cstring>

namespace tpu::distributed {
namespace {

constexpr uint64_t kMark = 0x74707564697374ULL;
constexpr size_t kMarkWord = kFrameBytes / 8 - 1;

}  // namespace

uint64_t Frame::Word(size_t i) const {
  uint64_t value;
  std::memcpy(&value, bytes_.data() + 8 * i, sizeof value);
  return value;
}

void Frame::SetWord(size_t i, uint64_t value) { std::memcpy(bytes_.data() + 8 * i, &value, sizeof value); }

void Frame::Write(uint64_t agreement, uint64_t number, std::string_view words, ConstBytes payload) {
  const size_t length = std::min(words.size(), kFrameWords);
  SetWord(0, agreement);
  SetWord(1, number);
  SetWord(2, payload.size());
  SetWord(3, length);
  std::memcpy(bytes_.data() + 32, words.data(), length);
  if (IsInline(payload.size()) && !payload.empty()) {
    std::memcpy(bytes_.data() + kFrameHeader, payload.data(), payload.size());
  }
  SetWord(kMarkWord, kMark);
}

bool Frame::complete() const { return Word(kMarkWord) == kMark; }

std::string Frame::words() const {
  return {reinterpret_cast<const char*>(bytes_.data()) + 32, std::min<size_t>(Word(3), kFrameWords)};
}

}  // namespace tpu::distributed
