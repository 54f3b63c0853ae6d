// A directory of a test's own, gone afterwards, and what the tests of csrc/cache share.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cache/entry.h"
#include "cache/file_store.h"

namespace tpu::cache {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = testing::TempDir() + "cacheXXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TemporaryDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline Key NumberedKey(int i) { return KeyBuilder().Add("number", std::to_string(i)).Build(); }

inline Entry NumberedEntry(int i, size_t size_bytes) {
  std::string bytes(size_bytes, '\0');
  for (size_t b = 0; b < size_bytes; ++b) bytes[b] = static_cast<char>(b * 7 + static_cast<size_t>(i));
  return {NumberedKey(i), "number" + std::to_string(i), 0.25 * i, std::move(bytes)};
}

// Every file below a directory, the folders' names left out.
inline std::vector<std::string> FilesBelow(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& item : std::filesystem::recursive_directory_iterator(path)) {
    if (item.is_regular_file()) names.push_back(item.path().string());
  }
  return names;
}

}  // namespace tpu::cache
