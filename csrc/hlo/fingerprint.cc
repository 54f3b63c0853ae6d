#include "hlo/fingerprint.h"

#include <algorithm>
#include <cstring>

namespace tpu::hlo {

namespace {

// The step of wyhash: the two halves of a 128-bit product, folded.
uint64_t Mix(uint64_t a, uint64_t b) {
  auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

constexpr uint64_t kP0 = 0xa0761d6478bd642f, kP1 = 0xe7037ed1a0b428db, kP2 = 0x8ebc6af09c88c6e3,
                   kP3 = 0x589965cc75374cc3;

}  // namespace

Fingerprint FingerprintOf(std::string_view bytes) {
  // Two lanes with their own keys and chaining; folding a word into its own running value keeps a zero factor from
  // wiping out what came before.
  uint64_t a = kP0 ^ bytes.size(), b = kP2 + bytes.size();
  const char* p = bytes.data();
  for (size_t left = bytes.size(); left > 0;) {
    uint64_t words[2] = {};
    size_t n = left < 16 ? left : 16;
    std::memcpy(words, p, n);
    p += n;
    left -= n;
    a = Mix(words[0] ^ kP1 ^ a, words[1] ^ kP0) + (a << 1 | a >> 63);
    b = Mix(words[1] ^ kP3 ^ b, words[0] ^ kP2 ^ a) + (b << 3 | b >> 61);
  }
  uint64_t hi = Mix(a ^ kP2, b ^ kP1) + b, lo = Mix(b ^ kP0, a ^ kP3) + a;
  return {Mix(hi ^ kP3, lo ^ kP0) ^ lo, Mix(lo ^ kP1, hi ^ kP2) ^ hi};
}

std::string WithoutLocations(std::string_view text) {
  constexpr std::string_view kLocation = " loc(\"";
  std::string bare;
  bare.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t found = std::min(text.find(kLocation, at), text.size());
    bare.append(text.substr(at, found - at));
    // Past the closing quote, which is not escaped, and the bracket.
    at = std::min(found + kLocation.size(), text.size());
    while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
    at = std::min(at + 2, text.size());
  }
  return bare;
}

Fingerprint FingerprintOfProgram(std::string_view text) { return FingerprintOf(WithoutLocations(text)); }

Fingerprint Combine(const Fingerprint& a, const Fingerprint& b) {
  uint64_t words[4] = {a.hi, a.lo, b.hi, b.lo};
  return FingerprintOf({reinterpret_cast<const char*>(words), sizeof words});
}

std::string Fingerprint::Hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out(32, '0');
  for (int i = 0; i < 16; ++i) {
    out[i] = kDigits[hi >> (60 - 4 * i) & 15];
    out[16 + i] = kDigits[lo >> (60 - 4 * i) & 15];
  }
  return out;
}

}  // namespace tpu::hlo
