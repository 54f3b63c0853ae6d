#include "cache/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace tpu::cache {
namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

std::string Octal(mode_t mode) {
  std::string text;
  for (int shift = 9; shift >= 0; shift -= 3) text += static_cast<char>('0' + (mode >> shift & 7));
  return text;
}

bool Trusted(const struct stat& info, Trust trust) {
  if (trust == Trust::kAnyone) return true;
  const bool owner = info.st_uid == geteuid() || (trust == Trust::kOwnOrRoot && info.st_uid == 0);
  return owner && (info.st_mode & kOthersWrite) == 0;
}

}  // namespace

Status SystemError(const std::string& what, const std::string& path, int error) {
  const Code code = error == ENOENT ? Code::kNotFound : error == ENOSPC ? Code::kResourceExhausted : Code::kUnavailable;
  return {code, what + " " + path + ": " + std::generic_category().message(error)};
}

Result<Directory> Directory::Open(const std::string& path, Trust trust) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) return SystemError("making the directory", path, errno);
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return SystemError("opening the directory", path, errno);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return SystemError("looking at the directory", path, errno);
  if (!Trusted(info, trust)) {
    return Status(Code::kInvalidArgument,
                  path + ": expected a directory that only this user (" + std::to_string(geteuid()) +
                      ") can write, since programs are loaded from it; found owner " + std::to_string(info.st_uid) +
                      ", permissions " + Octal(info.st_mode & 07777));
  }
  return Directory(path, std::move(fd), trust);
}

bool Directory::Trusts(int file) const {
  struct stat info;
  return fstat(file, &info) == 0 && S_ISREG(info.st_mode) && Trusted(info, trust_);
}

Status Directory::MakeBelow(const std::string& name) const {
  struct stat info;
  if (fstat(fd(), &info) != 0) return SystemError("looking at the directory", path_, errno);
  if (mkdirat(fd(), name.c_str(), S_IRWXU) != 0) {
    return errno == EEXIST ? Status() : SystemError("making the directory", path_ + "/" + name, errno);
  }
  // Whoever may write above may write below, whatever this process's umask says.
  if (fchmodat(fd(), name.c_str(), info.st_mode & 07777, 0) != 0) {
    return SystemError("setting the permissions of", path_ + "/" + name, errno);
  }
  return Status();
}

}  // namespace tpu::cache
