// kill -9 at random points of writing: what is found afterwards is whole, and nobody is locked out.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "cache/file_lock.h"
#include "cache_directory.h"

namespace tpu::cache {
namespace {

constexpr int kKills = 500;
constexpr int kKeys = 8;
constexpr size_t kSizes[] = {100, 30000, 1000000};

using Encoded = std::vector<std::vector<std::string>>;  // by key, then by size

// Writes entries for as long as it lives, each under its lock.
[[noreturn]] void WriteForEver(FileStore& store, const Encoded& encoded, unsigned seed) {
  std::mt19937 random(seed);
  for (;;) {
    const int i = static_cast<int>(random() % kKeys);
    std::optional<FileLock> lock;
    if (FileLock::Try(store.directory(), NumberedKey(i).id, &lock) != FileLock::Outcome::kHeld) _exit(1);
    if (!store.Write(NumberedKey(i).id, encoded[i][random() % std::size(kSizes)]).ok()) _exit(2);
    if (random() % 16 == 0) store.Prune(3000000);
  }
}

TEST(KillTest, NoEntryIsEverHalf) {
  TemporaryDirectory directory;
  auto store = FileStore::Open(directory.path(), Trust::kOwn);
  ASSERT_TRUE(store.ok());
  Encoded encoded(kKeys);
  for (int i = 0; i < kKeys; ++i) {
    for (const size_t size : kSizes) encoded[i].push_back(Encode(NumberedEntry(i, size)));
  }
  std::mt19937 random(20240229);
  int found = 0, interrupted = 0;
  for (int kill_number = 0; kill_number < kKills; ++kill_number) {
    const pid_t child = fork();
    if (child == 0) WriteForEver(**store, encoded, random());
    usleep(random() % 3000);
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << WEXITSTATUS(status);
    for (int i = 0; i < kKeys; ++i) {
      auto bytes = (*store)->Read(NumberedKey(i).id);
      ASSERT_TRUE(bytes.ok()) << bytes.status().message();
      std::optional<FileLock> lock;
      ASSERT_EQ(FileLock::Try((*store)->directory(), NumberedKey(i).id, &lock), FileLock::Outcome::kHeld);
      if (!bytes->has_value()) continue;
      ++found;
      auto entry = Decode(**bytes, NumberedKey(i));
      ASSERT_TRUE(entry.ok()) << entry.status().message();
      ASSERT_NE(std::find(encoded[i].begin(), encoded[i].end(), **bytes), encoded[i].end());
    }
    const auto files = FilesBelow(directory.path());
    if (std::any_of(files.begin(), files.end(), [](auto& f) { return f.find("writing-") != std::string::npos; })) {
      ++interrupted;
      (*store)->Prune(uint64_t{1} << 40);
    }
  }
  EXPECT_GT(found, kKills);
  EXPECT_GT(interrupted, kKills / 50) << "kills must fall into writes, or this tests nothing";
  (*store)->Prune(uint64_t{1} << 40);
  for (const std::string& file : FilesBelow(directory.path())) {
    EXPECT_EQ(file.find("writing-"), std::string::npos) << file;
  }
}

}  // namespace
}  // namespace tpu::cache
