#include "cache/environment.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "base/file_descriptor.h"
#include "cache/entry.h"

namespace tpu::cache {
namespace {

// The build id among the notes of one segment; notes are aligned to 4 bytes.
std::string BuildIdIn(std::string_view notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes.data(), sizeof note);
    const size_t name = (note.n_namesz + 3u) & ~size_t{3}, payload = (note.n_descsz + 3u) & ~size_t{3};
    if (sizeof note + name + payload > notes.size()) break;
    const std::string_view owner = notes.substr(sizeof note, note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && owner == std::string_view("GNU\0", 4)) {
      return std::string(notes.substr(sizeof note + name, note.n_descsz));
    }
    notes.remove_prefix(sizeof note + name + payload);
  }
  return {};
}

std::optional<std::string> ReadAt(int fd, off_t offset, size_t size) {
  std::string bytes(size, '\0');
  const ssize_t got = pread(fd, bytes.data(), size, offset);
  if (got < 0) return std::nullopt;
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

std::string BuildIdOf(int fd) {
  const auto header = ReadAt(fd, 0, sizeof(ElfW(Ehdr)));
  if (!header || header->size() < sizeof(ElfW(Ehdr)) || header->compare(0, SELFMAG, ELFMAG) != 0) return {};
  ElfW(Ehdr) elf;
  std::memcpy(&elf, header->data(), sizeof elf);
  if (elf.e_phentsize != sizeof(ElfW(Phdr))) return {};
  for (int i = 0; i < elf.e_phnum; ++i) {
    const auto bytes = ReadAt(fd, static_cast<off_t>(elf.e_phoff + i * sizeof(ElfW(Phdr))), sizeof(ElfW(Phdr)));
    if (!bytes || bytes->size() < sizeof(ElfW(Phdr))) return {};
    ElfW(Phdr) segment;
    std::memcpy(&segment, bytes->data(), sizeof segment);
    if (segment.p_type != PT_NOTE || segment.p_filesz > 65536) continue;
    const auto notes = ReadAt(fd, static_cast<off_t>(segment.p_offset), segment.p_filesz);
    if (!notes) return {};
    if (std::string id = BuildIdIn(*notes); !id.empty()) return id;
  }
  return {};
}

// A megabyte from all over the file, for the few libraries that are linked without an id.
std::string Sample(int fd, off_t size) {
  constexpr int kSamples = 256;
  constexpr size_t kBytes = 4096;
  hlo::Fingerprint all = hlo::FingerprintOf(std::to_string(size));
  for (int i = 0; i < kSamples; ++i) {
    const auto bytes = ReadAt(fd, size / kSamples * i, kBytes);
    if (!bytes) return {};
    all = hlo::Combine(all, hlo::FingerprintOf(*bytes));
  }
  return all.Hex();
}

std::string Text(const pjrt::Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes) text += name + "=" + pjrt::ToString(value) + ";";
  return text;
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

std::string BuildIdentity(const std::string& library) {
  const FileDescriptor file(open(library.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  const off_t size = lseek(file.get(), 0, SEEK_END);
  if (const std::string id = BuildIdOf(file.get()); !id.empty()) return hlo::FingerprintOf(id).Hex();
  return size > 0 ? Sample(file.get(), size) : std::string();
}

std::string DescribeCpu(const std::string& cpuinfo) {
  std::istringstream lines(cpuinfo);
  std::string text;
  // The first processor's paragraph; what varies from boot to boot (frequencies, microcode) left out.
  for (std::string line; std::getline(lines, line) && !line.empty();) {
    for (const char* wanted : {"vendor_id", "cpu family", "model", "model name", "flags", "Features", "CPU implementer",
                               "CPU part", "CPU variant"}) {
      const size_t colon = line.find(':');
      if (colon == std::string::npos) continue;
      std::string_view name(line.data(), colon);
      name = name.substr(0, name.find_last_not_of(" \t") + 1);
      if (name == wanted) text += line + "\n";
    }
  }
  return text;
}

std::string HostCpu() {
  std::ifstream file("/proc/cpuinfo");
  std::string first, line;
  // Hundreds of processors make a long file.
  while (std::getline(file, line) && !line.empty()) first += line + "\n";
  return DescribeCpu(first) + "usable: " + std::to_string(std::thread::hardware_concurrency());
}

KeyBuilder EnvironmentOf(const pjrt::Client& client) {
  const pjrt::Plugin& plugin = client.plugin();
  KeyBuilder key;
  key.Add("format", std::to_string(kEntryFormat));
  key.Add("platform", client.platform_name());
  key.Add("platform_version", client.platform_version());
  key.Add("pjrt_api", std::to_string(plugin.api_major()) + "." + std::to_string(plugin.api_minor()));
  key.Add("plugin_attributes", Text(plugin.attributes()));
  key.Add("plugin_build", BuildIdentity(plugin.path()));
  key.Add("device", client.devices().front()->kind());
  key.Add("xla_flags", Environment("XLA_FLAGS"));
  key.Add("libtpu_init_args", Environment("LIBTPU_INIT_ARGS"));
  // Machine code for the processors of another machine may crash here.
  if (client.is_cpu()) key.Add("cpu", HostCpu());
  return key;
}

}  // namespace tpu::cache
