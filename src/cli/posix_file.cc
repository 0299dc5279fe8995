#include "cli/posix_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace quire {

namespace fs = std::filesystem;

namespace {

// 0, or the errno of what failed.
int WriteBytes(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Error IoError(const fs::path& path, const std::string& what) {
  return MakeError(ErrorCode::kIo, "{}: {}", path.string(), what);
}

Error WriteError(const fs::path& path, int error) {
  if (error == ENOSPC || error == EDQUOT) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "{}: no space left on the disk; free some, or set QUIRE_CACHE to a directory "
                     "elsewhere",
                     path.string());
  }
  return IoError(path, std::strerror(error));
}

Status MakeDirectory(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return IoError(path, error.message());
  return {};
}

uint64_t SizeOf(const fs::path& path) {
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

Status WriteAll(int fd, std::span<const std::byte> bytes, const fs::path& path) {
  const int error = WriteBytes(fd, bytes);
  if (error != 0) return WriteError(path, error);
  return {};
}

Status WriteOutput(int fd, std::span<const std::byte> bytes, const fs::path& path) {
  const int error = WriteBytes(fd, bytes);
  if (error != 0) {
    return MakeError(ErrorCode::kIo, "cannot write {}: {}", path.string(), std::strerror(error));
  }
  return {};
}

Status CheckMayReplace(const fs::path& path, std::string_view opening, std::string_view kind) {
  if (path.empty()) return MakeError(ErrorCode::kInvalidArgument, "expected a file, got no name");
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
    return {};
  }
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::string bytes(opening.size(), '\0');
  const ssize_t count = file.fd() < 0 ? -1 : ::pread(file.fd(), bytes.data(), bytes.size(), 0);
  if (count < 0) {
    return MakeError(ErrorCode::kIo, "cannot see whether {} is {} to replace: {}", path.string(),
                     kind, std::strerror(errno));
  }
  bytes.resize(static_cast<size_t>(count));
  if (bytes == opening) return {};
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} is there and is not {}: what it holds would be lost; remove it or name "
                   "another file",
                   path.string(), kind);
}

bool IsSameFile(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return fs::is_regular_file(a, error);
  if (fs::exists(a, error) || fs::exists(b, error)) return false;
  const fs::path name = fs::weakly_canonical(fs::absolute(a, error), error);
  return !error && name == fs::weakly_canonical(fs::absolute(b, error), error) && !error;
}

Status LockPull(const Descriptor& lock, const std::string& name, const fs::path& directory) {
  if (lock.fd() < 0) return WriteError(directory, errno);
  if (::flock(lock.fd(), LOCK_EX | LOCK_NB) == 0) return {};
  return MakeError(ErrorCode::kIo,
                   "{}: another process is pulling '{}'; wait for it, or stop it first",
                   directory.string(), name);
}

Status CheckRoom(const fs::path& directory, const std::string& name, uint64_t needed_bytes) {
  std::error_code error;
  const fs::space_info room = fs::space(directory, error);
  if (error || room.available >= needed_bytes) return {};
  return MakeError(ErrorCode::kResourceExhausted,
                   "{}: pulling '{}' needs {} MB of free disk, and {} MB are free; free some, or "
                   "set QUIRE_CACHE to a directory elsewhere",
                   directory.string(), name, needed_bytes / 1'000'000, room.available / 1'000'000);
}

}  // namespace quire
