#include "cache/file_lock.h"

#include <fcntl.h>

#include <cerrno>
#include <limits>

namespace tpu::cache {

FileLock::Outcome FileLock::Try(const Directory& directory, const hlo::Fingerprint& key,
                                std::optional<FileLock>* lock) {
  FileDescriptor fd(openat(directory.fd(), "locks", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return Outcome::kUnavailable;
  // A lock of the open file, not of the process: two threads exclude each other too, and closing another descriptor of
  // the file does not let go.
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(key.lo & std::numeric_limits<int64_t>::max() >> 1);
  range.l_len = 1;
  if (fcntl(fd.get(), F_OFD_SETLK, &range) == 0) {
    lock->emplace(FileLock(std::move(fd)));
    return Outcome::kHeld;
  }
  return errno == EAGAIN || errno == EACCES ? Outcome::kBusy : Outcome::kUnavailable;
}

}  // namespace tpu::cache
