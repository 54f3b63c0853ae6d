#include "cache/counters.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <sstream>
#include <thread>

namespace tpu::cache {
namespace {

constexpr const char* kFile = "totals";
constexpr size_t kLargestFile = 4096;

Counters Parse(int fd) {
  std::string text(kLargestFile, '\0');
  const ssize_t got = pread(fd, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  Counters counters;
  std::istringstream words(text);
  std::string name;
  for (double value; words >> name >> value;) {
    for (const auto& [field, member] : Counters::Fields()) {
      if (field == name && std::isfinite(value)) counters.*member = value;
    }
  }
  return counters;
}

}  // namespace

const std::array<Counters::Field, 12>& Counters::Fields() {
  static constexpr std::array<Field, 12> kFields{{{"requests", &Counters::requests},
                                                  {"memory_hits", &Counters::memory_hits},
                                                  {"host_hits", &Counters::host_hits},
                                                  {"shared_hits", &Counters::shared_hits},
                                                  {"compilations", &Counters::compilations},
                                                  {"bad_entries", &Counters::bad_entries},
                                                  {"stored", &Counters::stored},
                                                  {"bytes_read", &Counters::bytes_read},
                                                  {"bytes_written", &Counters::bytes_written},
                                                  {"compile_seconds", &Counters::compile_seconds},
                                                  {"load_seconds", &Counters::load_seconds},
                                                  {"saved_seconds", &Counters::saved_seconds}}};
  return kFields;
}

Counters& Counters::operator+=(const Counters& other) {
  for (const auto& [name, member] : Fields()) this->*member += other.*member;
  return *this;
}

Counters Counters::operator-(const Counters& other) const {
  Counters difference;
  for (const auto& [name, member] : Fields()) difference.*member = this->*member - other.*member;
  return difference;
}

Counters ReadTotals(const Directory& directory) {
  FileDescriptor file(openat(directory.fd(), kFile, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return file ? Parse(file.get()) : Counters();
}

bool AddToTotals(const Directory& directory, const Counters& counters) {
  FileDescriptor file(openat(directory.fd(), kFile, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!file) return false;
  // Held for microseconds by whoever is alive; one that was stopped meanwhile keeps nobody for long.
  constexpr int kTries = 50;
  for (int i = 0; flock(file.get(), LOCK_EX | LOCK_NB) != 0; ++i) {
    if (i == kTries) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  Counters total = Parse(file.get());
  total += counters;
  std::ostringstream text;
  text.precision(17);
  for (const auto& [name, member] : Counters::Fields()) text << name << ' ' << total.*member << '\n';
  std::string bytes = text.str();
  bytes.resize(kLargestFile / 2, '\n');  // one size, so that a write is within what is there
  return pwrite(file.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
}

}  // namespace tpu::cache
