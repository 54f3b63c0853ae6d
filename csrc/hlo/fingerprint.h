// A 128-bit hash of bytes, the same on every machine of one byte order. Not cryptographic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tpu::hlo {

struct Fingerprint {
  uint64_t hi = 0, lo = 0;
  bool operator==(const Fingerprint&) const = default;
  auto operator<=>(const Fingerprint&) const = default;
  std::string Hex() const;  // 32 digits
};

Fingerprint FingerprintOf(std::string_view bytes);
// Of a StableHLO module: of what it computes, whatever lines its locations name.
Fingerprint FingerprintOfProgram(std::string_view text);
std::string WithoutLocations(std::string_view text);
// Of two in order.
Fingerprint Combine(const Fingerprint& a, const Fingerprint& b);

struct FingerprintHash {
  size_t operator()(const Fingerprint& f) const { return f.lo; }
};

}  // namespace tpu::hlo
