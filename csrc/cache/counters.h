// What the cache has done: by this process, and by all processes that used a directory.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "cache/directory.h"

namespace tpu::cache {

struct Counters {
  double requests = 0;      // programs asked for
  double memory_hits = 0;   // ... that this process had
  double host_hits = 0;     // ... read from the host's directory
  double shared_hits = 0;   // ... read from the shared tier
  double compilations = 0;  // ... compiled here
  double bad_entries = 0;   // found damaged, or refused by the plugin; removed
  double stored = 0;        // entries written
  double bytes_read = 0;
  double bytes_written = 0;
  double compile_seconds = 0;  // spent compiling
  double load_seconds = 0;     // spent reading and loading
  double saved_seconds = 0;    // what the programs read had taken to compile, less the time of loading them

  using Field = std::pair<std::string_view, double Counters::*>;
  // All of them, by name.
  static const std::array<Field, 12>& Fields();
  Counters& operator+=(const Counters& other);
  Counters operator-(const Counters& other) const;
};

// The sum kept in a directory. Readable text; unreadable text counts as nothing.
Counters ReadTotals(const Directory& directory);
// Adds to it, unless another process is doing so just now for longer than it is worth waiting; false then.
bool AddToTotals(const Directory& directory, const Counters& counters);

}  // namespace tpu::cache
