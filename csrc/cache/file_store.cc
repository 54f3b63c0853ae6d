#include "cache/file_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <memory>
#include <random>

namespace tpu::cache {
namespace {

constexpr int64_t kTouchAfterSeconds = 600;   // more exact than needed, and a write less per hit
constexpr int64_t kPruneAfterSeconds = 3600;  // between two looks at a directory, by whichever process
constexpr off_t kLargestFile = off_t{64} << 30;
constexpr const char* kPruneMark = "pruned";
constexpr const char* kTemporary = "writing-";

// Two containers may have a process of the same number.
const std::string& ProcessTag() {
  static const auto& tag = *new std::string(std::to_string(std::random_device()()));
  return tag;
}

std::string Folder(const hlo::Fingerprint& key) { return key.Hex().substr(0, 2); }
std::string Name(const hlo::Fingerprint& key) {
  const std::string digits = key.Hex();
  return digits.substr(0, 2) + "/" + digits.substr(2);
}

bool IsHex(const std::string& text) { return text.find_first_not_of("0123456789abcdef") == std::string::npos; }

hlo::Fingerprint KeyOf(const std::string& folder, const std::string& name) {
  const std::string digits = folder + name;
  return {std::stoull(digits.substr(0, 16), nullptr, 16), std::stoull(digits.substr(16), nullptr, 16)};
}

// The time since a mark, or nothing to rely on: the clock was set back.
bool Elapsed(int64_t since_s, int64_t seconds) {
  const int64_t now = std::time(nullptr);
  return since_s > now || now - since_s >= seconds;
}

Status WriteAll(int fd, std::string_view bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("writing", name, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return Status();
}

Status ReadAll(int fd, std::string* bytes, const std::string& name) {
  size_t done = 0;
  while (done < bytes->size()) {
    const ssize_t n = read(fd, bytes->data() + done, bytes->size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("reading", name, errno);
    if (n == 0) break;  // shorter than it was: its checksum will tell
    done += static_cast<size_t>(n);
  }
  bytes->resize(done);
  return Status();
}

struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};

std::vector<std::string> NamesIn(int parent, const char* name) {
  std::vector<std::string> names;
  FileDescriptor fd(openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return names;
  std::unique_ptr<DIR, CloseDir> dir(fdopendir(dup(fd.get())));
  if (!dir) return names;
  while (const dirent* item = readdir(dir.get())) names.emplace_back(item->d_name);
  return names;
}

}  // namespace

Result<std::shared_ptr<FileStore>> FileStore::Open(const std::string& path, Trust trust) {
  TPU_ASSIGN_OR_RETURN(Directory directory, Directory::Open(path, trust));
  return std::shared_ptr<FileStore>(new FileStore(std::move(directory)));
}

Result<std::optional<std::string>> FileStore::Read(const hlo::Fingerprint& key) {
  const std::string name = Name(key);
  FileDescriptor file(openat(directory_.fd(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) {
    if (errno == ENOENT) return std::optional<std::string>();
    return SystemError("reading", directory_.path() + "/" + name, errno);
  }
  struct stat info;
  if (fstat(file.get(), &info) != 0) return SystemError("reading", directory_.path() + "/" + name, errno);
  if (!directory_.Trusts(file.get()) || info.st_size > kLargestFile) {
    return Status(Code::kInvalidArgument, directory_.path() + "/" + name + ": expected this user's file");
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  TPU_RETURN_IF_ERROR(ReadAll(file.get(), &bytes, directory_.path() + "/" + name));
  if (Elapsed(info.st_mtim.tv_sec, kTouchAfterSeconds)) (void)futimens(file.get(), nullptr);
  return std::optional<std::string>(std::move(bytes));
}

Status FileStore::Write(const hlo::Fingerprint& key, const std::string& bytes) {
  static std::atomic<uint64_t> count{0};
  const std::string folder = Folder(key), final_name = Name(key);
  const std::string temporary = folder + "/" + kTemporary + ProcessTag() + "-" + std::to_string(getpid()) + "-" +
                                std::to_string(count.fetch_add(1));
  const std::string shown = directory_.path() + "/" + temporary;
  struct stat info;
  const mode_t readers = fstat(directory_.fd(), &info) == 0 ? info.st_mode & (S_IRGRP | S_IROTH) : 0;
  const auto create = [&] {
    return FileDescriptor(openat(directory_.fd(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                                 S_IRUSR | S_IWUSR | readers));
  };
  FileDescriptor file = create();
  if (!file && errno == ENOENT) {
    TPU_RETURN_IF_ERROR(directory_.MakeBelow(folder));
    file = create();
  }
  if (!file) return SystemError("writing", shown, errno);
  (void)flock(file.get(), LOCK_EX | LOCK_NB);  // says that its writer is alive
  Status status = WriteAll(file.get(), bytes, shown);
  if (status.ok() && renameat(directory_.fd(), temporary.c_str(), directory_.fd(), final_name.c_str()) != 0) {
    status = SystemError("renaming", shown, errno);
  }
  if (!status.ok()) (void)unlinkat(directory_.fd(), temporary.c_str(), 0);
  return status;
}

void FileStore::Remove(const hlo::Fingerprint& key) { (void)unlinkat(directory_.fd(), Name(key).c_str(), 0); }

void FileStore::ForEachName(
    const std::function<void(const std::string& folder, const std::string& name)>& visit) const {
  for (const std::string& folder : NamesIn(directory_.fd(), ".")) {
    if (folder.size() != 2 || !IsHex(folder)) continue;
    for (const std::string& name : NamesIn(directory_.fd(), folder.c_str())) visit(folder, name);
  }
}

std::vector<FileStore::File> FileStore::List() const {
  std::vector<File> files;
  const int64_t now = std::time(nullptr);
  ForEachName([&](const std::string& folder, const std::string& name) {
    struct stat info;
    if (name.size() != 30 || !IsHex(name)) return;
    if (fstatat(directory_.fd(), (folder + "/" + name).c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return;
    files.push_back({KeyOf(folder, name), static_cast<uint64_t>(info.st_size), std::min(info.st_mtim.tv_sec, now)});
  });
  return files;
}

std::string FileStore::Peek(const hlo::Fingerprint& key, size_t size_bytes) const {
  FileDescriptor file(openat(directory_.fd(), Name(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  std::string bytes(file ? size_bytes : 0, '\0');
  if (file && !ReadAll(file.get(), &bytes, "").ok()) bytes.clear();
  return bytes;
}

void FileStore::RemoveIfAbandoned(const std::string& name) const {
  FileDescriptor file(openat(directory_.fd(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file || flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;
  // It may have got its final name since it was listed: the name is what is removed, and that is gone then.
  (void)unlinkat(directory_.fd(), name.c_str(), 0);
}

FileStore::Pruned FileStore::Prune(uint64_t max_bytes) {
  ForEachName([&](const std::string& folder, const std::string& name) {
    if (name.starts_with(kTemporary)) RemoveIfAbandoned(folder + "/" + name);
  });
  std::vector<File> files = List();
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used_s > b.used_s; });
  Pruned pruned;
  bool full = false;
  for (const File& file : files) {
    // One that no cache of this size could keep does not push out the others.
    full = full || (file.size_bytes <= max_bytes && pruned.kept_bytes + file.size_bytes > max_bytes);
    if (!full && file.size_bytes <= max_bytes) {
      pruned.kept_bytes += file.size_bytes;
      continue;
    }
    Remove(file.key);
    ++pruned.files;
    pruned.bytes += file.size_bytes;
  }
  return pruned;
}

bool FileStore::TakePruneTurn() {
  FileDescriptor mark(openat(directory_.fd(), kPruneMark, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat info;
  if (!mark || flock(mark.get(), LOCK_EX | LOCK_NB) != 0 || fstat(mark.get(), &info) != 0) return false;
  const bool turn = info.st_size == 0 || Elapsed(info.st_mtim.tv_sec, kPruneAfterSeconds);
  return turn && pwrite(mark.get(), "1", 1, 0) == 1;
}

}  // namespace tpu::cache
