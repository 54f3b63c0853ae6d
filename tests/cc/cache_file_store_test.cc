// The directory of entries: trust, order of use, what is left by the dead, and disks that are full.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <fstream>

#include "cache/counters.h"
#include "cache/file_lock.h"
#include "cache_directory.h"

namespace tpu::cache {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void SetUp() override { store = Open(Trust::kOwn); }
  std::shared_ptr<FileStore> Open(Trust trust) {
    auto opened = FileStore::Open(directory.path() + "/c", trust);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return opened.ok() ? *opened : nullptr;
  }
  Status Write(int i, size_t size_bytes = 1000) {
    return store->Write(NumberedKey(i).id, Encode(NumberedEntry(i, size_bytes)));
  }
  bool Has(int i) {
    auto bytes = store->Read(NumberedKey(i).id);
    return bytes.ok() && bytes->has_value() && Decode(**bytes, NumberedKey(i)).ok();
  }
  std::string Path(int i) {
    const std::string hex = NumberedKey(i).id.Hex();
    return directory.path() + "/c/" + hex.substr(0, 2) + "/" + hex.substr(2);
  }
  void SetUsed(int i, time_t when) {
    const timespec times[2] = {{when, 0}, {when, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, Path(i).c_str(), times, 0), 0);
  }
  TemporaryDirectory directory;
  std::shared_ptr<FileStore> store;
};

TEST_F(Files, KeepsWhatIsWritten) {
  EXPECT_FALSE(Has(1));
  ASSERT_TRUE(Write(1).ok());
  ASSERT_TRUE(Write(2, 0).ok());
  EXPECT_TRUE(Has(1));
  EXPECT_TRUE(Has(2));
  ASSERT_TRUE(Write(1, 5000).ok());
  EXPECT_TRUE(Has(1));
  EXPECT_EQ(store->List().size(), 2u);
  store->Remove(NumberedKey(1).id);
  EXPECT_FALSE(Has(1));
}

TEST_F(Files, AreTheUsersAlone) {
  ASSERT_TRUE(Write(1).ok());
  struct stat info;
  ASSERT_EQ(stat((directory.path() + "/c").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  ASSERT_EQ(stat(Path(1).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST_F(Files, ADirectoryThatOthersCanWriteIsRefusedUnlessAllowed) {
  const std::string path = directory.path() + "/c";
  for (const mode_t mode : {0770, 0707, 01777}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    for (const Trust trust : {Trust::kOwn, Trust::kOwnOrRoot}) {
      auto opened = FileStore::Open(path, trust);
      ASSERT_FALSE(opened.ok());
      EXPECT_EQ(opened.status().code(), Code::kInvalidArgument);
      EXPECT_NE(opened.status().message().find("only this user"), std::string::npos) << opened.status().message();
    }
    EXPECT_TRUE(FileStore::Open(path, Trust::kAnyone).ok());
  }
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  EXPECT_TRUE(FileStore::Open(path, Trust::kOwn).ok());
}

TEST_F(Files, AFileThatOthersCanWriteIsRefused) {
  ASSERT_TRUE(Write(1).ok());
  ASSERT_EQ(chmod(Path(1).c_str(), 0666), 0);
  EXPECT_FALSE(store->Read(NumberedKey(1).id).ok());
}

TEST_F(Files, LinksAndPipesAreNotFollowed) {
  ASSERT_TRUE(Write(1).ok());
  fs::rename(Path(1), directory.path() + "/elsewhere");
  fs::create_symlink(directory.path() + "/elsewhere", Path(1));
  EXPECT_FALSE(Has(1));
  fs::remove(Path(1));
  ASSERT_EQ(mkfifo(Path(1).c_str(), 0600), 0);
  EXPECT_FALSE(Has(1));  // and does not wait for a writer
  ASSERT_TRUE(Write(1).ok());
  EXPECT_TRUE(Has(1));
}

TEST_F(Files, AUserMeetsAnotherUsersDirectory) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  ASSERT_TRUE(Write(1).ok());
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(2);
    // Neither read nor written, whatever its permissions, unless the owner is root and it is a shared one.
    const std::string path = directory.path() + "/c";
    const bool own = FileStore::Open(path, Trust::kOwn).ok();
    _exit(own ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(Files, UsersMayShareWhatRootOffers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  ASSERT_EQ(chmod((directory.path() + "/c").c_str(), 0755), 0);
  ASSERT_TRUE(Write(1).ok());
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(2);
    auto offered = FileStore::Open(directory.path() + "/c", Trust::kOwnOrRoot);
    if (!offered.ok()) _exit(3);
    auto bytes = (*offered)->Read(NumberedKey(1).id);
    if (!bytes.ok() || !bytes->has_value() || !Decode(**bytes, NumberedKey(1)).ok()) _exit(4);
    std::optional<FileLock> lock;
    if (FileLock::Try((*offered)->directory(), NumberedKey(2).id, &lock) == FileLock::Outcome::kBusy) _exit(5);
    _exit((*offered)->Write(NumberedKey(2).id, "x").ok() ? 6 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(Files, ADirectoryThatCannotBeMadeIsAnError) {
  std::ofstream(directory.path() + "/file") << "x";
  auto opened = FileStore::Open(directory.path() + "/file/c", Trust::kOwn);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::kUnavailable);
}

TEST_F(Files, PruneRemovesWhatWasUsedLongestAgo) {
  const time_t now = std::time(nullptr);
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(Write(i, 10000).ok());
    SetUsed(i, now - 1000 * (6 - i));
  }
  EXPECT_TRUE(Has(0));  // used now
  const auto pruned = store->Prune(3 * 10500);
  EXPECT_EQ(pruned.files, 3u);
  EXPECT_LE(pruned.kept_bytes, 3u * 10500);
  for (const int i : {0, 4, 5}) EXPECT_TRUE(Has(i)) << i;
  for (const int i : {1, 2, 3}) EXPECT_FALSE(Has(i)) << i;
  EXPECT_EQ(store->Prune(0).files, 3u);
  EXPECT_TRUE(store->List().empty());
}

TEST_F(Files, AClockSetBackDoesNoHarm) {
  const time_t future = std::time(nullptr) + 10 * 86400;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Write(i).ok());
    SetUsed(i, future);
  }
  EXPECT_TRUE(Has(1));  // which brings it back to this clock
  struct stat info;
  ASSERT_EQ(stat(Path(1).c_str(), &info), 0);
  EXPECT_LT(info.st_mtim.tv_sec, future);
  for (const auto& file : store->List()) EXPECT_LE(file.used_s, std::time(nullptr));
  EXPECT_EQ(store->Prune(0).files, 3u);

  ASSERT_TRUE(store->TakePruneTurn());
  EXPECT_FALSE(store->TakePruneTurn());
  const timespec times[2] = {{future, 0}, {future, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (directory.path() + "/c/pruned").c_str(), times, 0), 0);
  EXPECT_TRUE(store->TakePruneTurn());
}

TEST_F(Files, AFullDiskKeepsNothingHalf) {
  const pid_t child = fork();
  if (child == 0) {
    // Writes beyond this size fail as on a full disk, part way through.
    const rlimit limit{20000, 20000};
    std::signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    const bool small = Write(1, 1000).ok(), large = Write(2, 1000000).ok();
    _exit(small && !large ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Has(1));
  EXPECT_FALSE(Has(2));
  EXPECT_EQ(FilesBelow(directory.path()).size(), 1u);
}

TEST_F(Files, LocksExcludeAndDieWithTheirHolder) {
  const Key key = NumberedKey(1);
  std::optional<FileLock> mine, again, other;
  EXPECT_EQ(FileLock::Try(store->directory(), key.id, &mine), FileLock::Outcome::kHeld);
  EXPECT_EQ(FileLock::Try(store->directory(), key.id, &again), FileLock::Outcome::kBusy);
  EXPECT_EQ(FileLock::Try(store->directory(), NumberedKey(2).id, &other), FileLock::Outcome::kHeld);
  mine.reset();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::optional<FileLock> held;
    const bool got = FileLock::Try(store->directory(), key.id, &held) == FileLock::Outcome::kHeld;
    (void)!write(ready[1], got ? "y" : "n", 1);
    pause();
    _exit(0);
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_EQ(FileLock::Try(store->directory(), key.id, &again), FileLock::Outcome::kBusy);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(FileLock::Try(store->directory(), key.id, &again), FileLock::Outcome::kHeld);
  close(ready[0]);
  close(ready[1]);
}

TEST_F(Files, TotalsAddUpOverProcesses) {
  for (int i = 0; i < 4; ++i) {
    if (fork() == 0) {
      Counters counters;
      counters.requests = 10;
      counters.saved_seconds = 0.5;
      _exit(AddToTotals(store->directory(), counters) ? 0 : 1);
    }
  }
  int failed = 0;
  for (int i = 0, status = 0; i < 4; ++i) {
    wait(&status);
    failed += status != 0;
  }
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(ReadTotals(store->directory()).requests, 40);
  EXPECT_EQ(ReadTotals(store->directory()).saved_seconds, 2);
  std::ofstream(directory.path() + "/c/totals") << "requests garbage nan \x01\x02";
  EXPECT_EQ(ReadTotals(store->directory()).requests, 0);
  EXPECT_TRUE(AddToTotals(store->directory(), Counters{.requests = 3}));
  EXPECT_EQ(ReadTotals(store->directory()).requests, 3);
}

}  // namespace
}  // namespace tpu::cache
