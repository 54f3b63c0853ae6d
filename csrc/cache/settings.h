// Where compiled programs are kept, as the environment says.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tpu::cache {

struct Settings {
  std::string host_directory;  // empty: no host tier
  std::string shared_url;      // TORCHTPU_CACHE_URL; empty: no shared tier
  bool trust_shared = false;   // TORCHTPU_CACHE_TRUST names it
  uint64_t max_bytes = uint64_t{4} << 30;
  double wait_s = 120;  // for another process that compiles the same program, before compiling it too
  double exit_s = 20;   // at exit, for programs that are being compiled: the next process will want them

  // TORCHTPU_CACHE=0 turns both tiers off; TORCHTPU_CACHE_DIR, else XDG_CACHE_HOME, else ~/.cache is the host's;
  // TORCHTPU_CACHE_MAX_BYTES, TORCHTPU_CACHE_WAIT_SECONDS, TORCHTPU_EXIT_SECONDS. A value that makes no sense is as if
  // not set, with a notice.
  static Settings Read(const std::function<const char*(const char*)>& variable);
  // The path when the URL is a directory of this machine: no scheme, or file://.
  std::optional<std::string> shared_directory() const;
};

// "4294967296", "4G", "512 MiB"; units are powers of 1024.
std::optional<uint64_t> ParseBytes(std::string_view text);

}  // namespace tpu::cache
