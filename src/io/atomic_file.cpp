#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace turbolstm {
namespace {

namespace fs = std::filesystem;

// Linux writes at most 2 GiB a call.
constexpr size_t kLargestWrite = size_t{1} << 30;

fs::path ResolveTarget(const fs::path& target) {
  std::error_code failure;
  const fs::path resolved = fs::weakly_canonical(fs::absolute(target), failure);
  TL_CHECK(!failure, "[{}] cannot be written: {}", target.string(), failure.message());
  const fs::file_status status = fs::status(resolved, failure);
  TL_CHECK(!fs::exists(status) || fs::is_regular_file(status),
           "[{}] cannot be written: it exists and is not a regular file", target.string());
  TL_CHECK(resolved.has_filename(), "[{}] cannot be written: wants a file name", target.string());
  return resolved;
}

bool SyncDirectory(const fs::path& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  // Some file systems do not sync directories and say EINVAL; the rename is still atomic there.
  const bool synced = ::fsync(fd) == 0 || errno == EINVAL;
  const int reason = errno;
  ::close(fd);
  errno = reason;
  return synced;
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& target) : target_(ResolveTarget(target)), part_(target_) {
  part_ += ".part";
  OpenPart();
}

AtomicFile::~AtomicFile() {
  Abandon();
}

void AtomicFile::FailWithErrno(std::string_view action) {
  const std::error_code reason(errno, std::generic_category());
  Abandon();
  Fail("[{}] cannot {}: {}", target_.string(), action, reason.message());
}

void AtomicFile::OpenPart() {
  do {
    fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0) FailWithErrno("create its temporary file");
  } while (!LockPart());
  if (::ftruncate(fd_, 0) != 0) FailWithErrno("empty its temporary file");
}

// False when another writer renamed the file away between opening and locking it: what is locked
// then is the finished target, which must not be touched.
bool AtomicFile::LockPart() {
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    ::close(fd_);
    fd_ = -1;  // the other writer's file: not ours to remove
    TL_CHECK(reason != EWOULDBLOCK, "[{}] is being written by another process", target_.string());
    errno = reason;
    FailWithErrno("lock its temporary file");
  }
  struct stat locked = {};
  struct stat named = {};
  if (::fstat(fd_, &locked) != 0) FailWithErrno("examine its temporary file");
  if (::lstat(part_.c_str(), &named) == 0 && named.st_ino == locked.st_ino &&
      named.st_dev == locked.st_dev) {
    return true;
  }
  ::close(fd_);
  fd_ = -1;
  return false;
}

void AtomicFile::Abandon() noexcept {
  if (fd_ < 0) return;
  ::unlink(part_.c_str());
  ::close(fd_);
  fd_ = -1;
}

void AtomicFile::Write(std::span<const std::byte> bytes) {
  TL_CHECK(fd_ >= 0, "[{}] written after it was committed", target_.string());
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), std::min(bytes.size(), kLargestWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) FailWithErrno("be written");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::Write(std::string_view text) {
  Write(std::as_bytes(std::span(text)));
}

void AtomicFile::Commit() {
  TL_CHECK(fd_ >= 0, "[{}] committed twice", target_.string());
  if (::fsync(fd_) != 0) FailWithErrno("be synced");
  if (::rename(part_.c_str(), target_.c_str()) != 0) FailWithErrno("be renamed into place");
  ::close(fd_);
  fd_ = -1;
  if (!SyncDirectory(target_.parent_path())) FailWithErrno("sync its directory");
}

}  // namespace turbolstm
