// Hashing of 64-bit words, one after another. Not for keys that files are found by: see hlo/fingerprint.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tpu {

// The hash of what `hash` stands for, followed by `word`.
inline uint64_t Mix(uint64_t hash, uint64_t word) {
  const auto product = static_cast<unsigned __int128>(hash ^ word) * 0xD6E8FEB86659FD93ull;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

template <typename Words>
uint64_t HashWords(const Words& words) {
  uint64_t hash = 0x9E3779B97F4A7C15ull * (words.size() + 1);
  for (uint64_t word : words) hash = Mix(hash, word);
  return hash;
}

}  // namespace tpu
