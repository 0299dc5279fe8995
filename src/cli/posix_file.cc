#include "cli/posix_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace quire {

namespace fs = std::filesystem;

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
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return WriteError(path, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
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
