#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/bytes.h"

namespace quire {

Result<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return MakeError(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: {}",
                     path.string(), std::strerror(errno));
  }
  struct stat info{};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return MakeError(ErrorCode::kIo, "{}: not a regular file", path.string());
  }
  const FileIdentity identity{
      .size_bytes = static_cast<uint64_t>(info.st_size),
      .modified_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec,
      .inode = info.st_ino,
      .device = info.st_dev};
  std::span<const std::byte> bytes;
  if (identity.size_bytes > 0) {
    void* address = ::mmap(nullptr, identity.size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      const int error = errno;
      ::close(fd);
      return MakeError(ErrorCode::kIo, "{}: cannot map {} bytes: {}", path.string(),
                       identity.size_bytes, std::strerror(error));
    }
    bytes = {static_cast<const std::byte*>(address), identity.size_bytes};
  }
  ::close(fd);
  return MappedFile(bytes, identity);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), identity_(other.identity_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(identity_, other.identity_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::Release(size_t offset, size_t length) const {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = AlignUp(offset, page);
  const size_t end = (offset + length) & ~(page - 1);
  if (begin >= end || end > bytes_.size()) return;
  ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace quire
