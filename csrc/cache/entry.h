// One compiled program as bytes: what is kept in a file or an object store.
//
// Layout, little endian: 8 bytes of magic, the format, the key, compile seconds, the lengths of what follows, a checksum
// of all else; then the key's fields, the program's name, and the plugin's serialised executable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "cache/key.h"

namespace tpu::cache {

// Changes with the layout, and with what we ask of an executable; other formats' entries are misses.
inline constexpr uint32_t kEntryFormat = 1;

struct Entry {
  Key key;
  std::string name;
  double compile_seconds = 0;
  std::string executable;
};

// The same without the executable, for listings.
struct EntryHeader {
  hlo::Fingerprint key;
  double compile_seconds = 0;
  uint32_t fields_bytes = 0, name_bytes = 0;
  uint64_t executable_bytes = 0;
  uint64_t size_bytes() const;  // of the whole entry
};
inline constexpr size_t kEntryHeaderBytes = 80;

std::string Encode(const Entry& entry);
// Checks everything; kInvalidArgument says what is wrong with the bytes.
Result<Entry> Decode(std::string_view bytes, const Key& key);
// Reads the first bytes of an entry, without the checksum's assurance.
Result<EntryHeader> DecodeHeader(std::string_view bytes);

}  // namespace tpu::cache
