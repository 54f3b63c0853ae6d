#include "cache/entry.h"

#include <bit>
#include <cstring>

namespace tpu::cache {
namespace {

static_assert(std::endian::native == std::endian::little, "entries are little endian");

struct Layout {
  char magic[8];
  uint32_t format;
  uint32_t fields_bytes;
  uint64_t key_hi, key_lo;
  double compile_seconds;
  uint64_t executable_bytes;
  uint32_t name_bytes;
  uint32_t reserved;
  uint64_t sum_hi, sum_lo;  // of the entry with zeros here
  char padding[8];
};
static_assert(sizeof(Layout) == kEntryHeaderBytes);

constexpr char kMagic[8] = {'T', 'O', 'R', 'C', 'H', 'T', 'P', 'U'};

hlo::Fingerprint Sum(Layout header, std::string_view body) {
  header.sum_hi = header.sum_lo = 0;
  return hlo::Combine(hlo::FingerprintOf({reinterpret_cast<const char*>(&header), sizeof header}),
                      hlo::FingerprintOf(body));
}

Status Bad(const std::string& why) { return {Code::kInvalidArgument, "cache entry: " + why}; }

Result<Layout> ReadLayout(std::string_view bytes) {
  Layout header;
  if (bytes.size() < sizeof header) return Bad("expected a header, found " + std::to_string(bytes.size()) + " bytes");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return Bad("expected a compiled program, found other data");
  if (header.format != kEntryFormat) {
    return Bad("expected format " + std::to_string(kEntryFormat) + ", found " + std::to_string(header.format));
  }
  return header;
}

}  // namespace

uint64_t EntryHeader::size_bytes() const {
  return kEntryHeaderBytes + fields_bytes + uint64_t{name_bytes} + executable_bytes;
}

std::string Encode(const Entry& entry) {
  Layout header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.format = kEntryFormat;
  header.key_hi = entry.key.id.hi;
  header.key_lo = entry.key.id.lo;
  header.compile_seconds = entry.compile_seconds;
  header.fields_bytes = static_cast<uint32_t>(entry.key.fields.size());
  header.name_bytes = static_cast<uint32_t>(entry.name.size());
  header.executable_bytes = entry.executable.size();
  std::string bytes;
  bytes.reserve(sizeof header + entry.key.fields.size() + entry.name.size() + entry.executable.size());
  bytes.resize(sizeof header);
  bytes.append(entry.key.fields).append(entry.name).append(entry.executable);
  const hlo::Fingerprint sum = Sum(header, std::string_view(bytes).substr(sizeof header));
  header.sum_hi = sum.hi;
  header.sum_lo = sum.lo;
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

Result<EntryHeader> DecodeHeader(std::string_view bytes) {
  TPU_ASSIGN_OR_RETURN(const Layout header, ReadLayout(bytes));
  return EntryHeader{{header.key_hi, header.key_lo},
                     header.compile_seconds,
                     header.fields_bytes,
                     header.name_bytes,
                     header.executable_bytes};
}

Result<Entry> Decode(std::string_view bytes, const Key& key) {
  TPU_ASSIGN_OR_RETURN(const Layout header, ReadLayout(bytes));
  std::string_view body = bytes.substr(sizeof header);
  const uint64_t small = uint64_t{header.fields_bytes} + header.name_bytes;
  if (small > body.size() || body.size() - small != header.executable_bytes) {
    return Bad("expected as many bytes as its header says, found " + std::to_string(bytes.size()));
  }
  if (Sum(header, body) != hlo::Fingerprint{header.sum_hi, header.sum_lo}) return Bad("its checksum does not match");
  if (hlo::Fingerprint{header.key_hi, header.key_lo} != key.id || body.substr(0, header.fields_bytes) != key.fields) {
    return Bad("it is another program's");
  }
  Entry entry{key, std::string(body.substr(header.fields_bytes, header.name_bytes)), header.compile_seconds, {}};
  entry.executable = body.substr(small);
  return entry;
}

}  // namespace tpu::cache
