// A directory that may hold code which this process will run.
//
// Everything in it is reached relative to the open descriptor, so that nobody can put another directory in its place
// after the check.
#pragma once

#include <string>

#include "base/file_descriptor.h"
#include "base/status.h"

namespace tpu::cache {

enum class Trust {
  kOwn,        // this user's, and no other user can write there
  kOwnOrRoot,  // the same, or the administrator's
  kAnyone,     // the user has allowed it by name
};

class Directory {
 public:
  // Makes the directory (0700) if there is none, and its parents. kInvalidArgument when it is not to be trusted: the
  // message says what to do.
  static Result<Directory> Open(const std::string& path, Trust trust);

  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }
  // Whether an open file here is to be trusted like the directory.
  bool Trusts(int file) const;
  // A directory below, made with the same permissions if there is none.
  Status MakeBelow(const std::string& name) const;

 private:
  Directory(std::string path, FileDescriptor fd, Trust trust)
      : path_(std::move(path)), fd_(std::move(fd)), trust_(trust) {}
  std::string path_;
  FileDescriptor fd_;
  Trust trust_;
};

// "<what> <path>: <the error's text>".
Status SystemError(const std::string& what, const std::string& path, int error);

}  // namespace tpu::cache
