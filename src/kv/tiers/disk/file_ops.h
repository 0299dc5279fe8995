// The calls that the disk tier makes, so that tests can make each of them fail.
// Results and errno are those of the system calls of the same name. Thread-safe.
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

class FileOps {
 public:
  virtual ~FileOps() = default;

  virtual int Open(const char* path, int flags, mode_t mode);
  virtual int Close(int fd);
  virtual ssize_t PreadV(int fd, const iovec* parts, int num_parts, off_t offset);
  virtual ssize_t PwriteV(int fd, const iovec* parts, int num_parts, off_t offset);
  virtual int Allocate(int fd, off_t offset, off_t length);  // posix_fallocate: returns the errno
  virtual int Truncate(int fd, off_t length);
  virtual int Sync(int fd);  // fdatasync
  virtual int Stat(int fd, struct stat* out);
  virtual int StatFileSystem(int fd, struct statvfs* out);
  virtual int Unlink(const char* path);

  static FileOps& System();
};

// A file that is closed with its owner.
class OpenFile {
 public:
  OpenFile() = default;
  OpenFile(FileOps& ops, int fd) : ops_(&ops), fd_(fd) {}
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;
  ~OpenFile();

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  FileOps* ops_ = nullptr;
  int fd_ = -1;
};

// All of it, however many calls that takes: 0, or the errno. ReadFully gives kShortFile at the
// file's end.
inline constexpr int kShortFile = -1;
int ReadFully(FileOps& ops, int fd, std::span<const iovec> parts, uint64_t offset);
int WriteFully(FileOps& ops, int fd, std::span<const iovec> parts, uint64_t offset);

inline iovec PartOf(std::span<std::byte> bytes) {
  return {.iov_base = bytes.data(), .iov_len = bytes.size()};
}
inline iovec PartOf(std::span<const std::byte> bytes) {
  return {.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
}

}  // namespace quire
