#include "kv/tiers/disk/file_ops.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

constexpr size_t kMaxParts = 4;

// Moves the parts on by what a call has done.
void Advance(std::span<iovec>& parts, size_t num_bytes) {
  while (!parts.empty() && num_bytes >= parts.front().iov_len) {
    num_bytes -= parts.front().iov_len;
    parts = parts.subspan(1);
  }
  if (parts.empty()) return;
  parts.front().iov_base = static_cast<std::byte*>(parts.front().iov_base) + num_bytes;
  parts.front().iov_len -= num_bytes;
}

// `call` moves bytes of the parts it is given; `at_end` is what 0 bytes mean.
template <typename Call>
int Repeat(std::span<const iovec> parts, uint64_t offset, int at_end, const Call& call) {
  QUIRE_CHECK(parts.size() <= kMaxParts, "{} parts", parts.size());
  std::array<iovec, kMaxParts> rest_of{};
  std::copy(parts.begin(), parts.end(), rest_of.begin());
  std::span<iovec> rest(rest_of.data(), parts.size());
  Advance(rest, 0);
  while (!rest.empty()) {
    const ssize_t done = call(rest.data(), static_cast<int>(rest.size()), offset);
    if (done < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    if (done == 0) return at_end;
    Advance(rest, static_cast<size_t>(done));
    offset += static_cast<uint64_t>(done);
  }
  return 0;
}

}  // namespace

int FileOps::Open(const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }
int FileOps::Close(int fd) { return ::close(fd); }
ssize_t FileOps::PreadV(int fd, const iovec* parts, int num_parts, off_t offset) {
  return ::preadv(fd, parts, num_parts, offset);
}
ssize_t FileOps::PwriteV(int fd, const iovec* parts, int num_parts, off_t offset) {
  return ::pwritev(fd, parts, num_parts, offset);
}
int FileOps::Allocate(int fd, off_t offset, off_t length) {
  return ::posix_fallocate(fd, offset, length);
}
int FileOps::Truncate(int fd, off_t length) { return ::ftruncate(fd, length); }
int FileOps::Sync(int fd) { return ::fdatasync(fd); }
int FileOps::Stat(int fd, struct stat* out) { return ::fstat(fd, out); }
int FileOps::StatFileSystem(int fd, struct statvfs* out) { return ::fstatvfs(fd, out); }
int FileOps::Unlink(const char* path) { return ::unlink(path); }

FileOps& FileOps::System() {
  static FileOps ops;
  return ops;
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : ops_(other.ops_), fd_(std::exchange(other.fd_, -1)) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(ops_, other.ops_);
  std::swap(fd_, other.fd_);
  return *this;
}

OpenFile::~OpenFile() {
  if (fd_ >= 0) ops_->Close(fd_);
}

int ReadFully(FileOps& ops, int fd, std::span<const iovec> parts, uint64_t offset) {
  return Repeat(parts, offset, kShortFile, [&](const iovec* rest, int num, uint64_t at) {
    return ops.PreadV(fd, rest, num, static_cast<off_t>(at));
  });
}

int WriteFully(FileOps& ops, int fd, std::span<const iovec> parts, uint64_t offset) {
  return Repeat(parts, offset, EIO, [&](const iovec* rest, int num, uint64_t at) {
    return ops.PwriteV(fd, rest, num, static_cast<off_t>(at));
  });
}

}  // namespace quire
