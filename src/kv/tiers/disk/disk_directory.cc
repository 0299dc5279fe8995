#include "kv/tiers/disk/disk_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

namespace quire {
namespace {

constexpr std::string_view kLockName = "LOCK";
constexpr std::string_view kSlabEnding = ".slab";
constexpr std::string_view kIndexEnding = ".index";

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::optional<Digest> DigestOf(const std::string& name, std::string_view ending) {
  Digest digest{};
  if (name.size() != 2 * digest.size() + ending.size() || !name.ends_with(ending)) {
    return std::nullopt;
  }
  for (size_t i = 0; i < digest.size(); ++i) {
    const int high = DigitOf(name[2 * i]);
    const int low = DigitOf(name[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    digest[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return digest;
}

// What the file says, as far as it is a number: it is shown to people and nothing else.
std::string PidIn(FileOps& ops, int fd) {
  std::array<std::byte, 16> text{};
  const iovec part = PartOf(std::span<std::byte>(text));
  const ssize_t size = ops.PreadV(fd, &part, 1, 0);
  std::string pid;
  for (ssize_t i = 0; i < size; ++i) {
    const char c = static_cast<char>(text[static_cast<size_t>(i)]);
    if (c < '0' || c > '9') break;
    pid += c;
  }
  return pid.empty() ? "unknown" : pid;
}

}  // namespace

Result<DiskDirectory> DiskDirectory::Open(FileOps& ops, const std::filesystem::path& path,
                                          Missing missing) {
  if (path.empty()) return MakeError(ErrorCode::kInvalidArgument, "a KV directory needs a name");
  if (missing == Missing::kMake) {
    std::error_code error;
    const std::filesystem::path parent = path.parent_path();
    if (!parent.empty()) std::filesystem::create_directories(parent, error);
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return MakeError(ErrorCode::kIo, "{}: cannot make the KV directory: {}", path.string(),
                       std::strerror(errno));
    }
  }
  DiskDirectory directory;
  directory.ops_ = &ops;
  directory.path_ = path;
  directory.directory_ =
      OpenFile(ops, ops.Open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
  struct stat facts{};
  if (!directory.directory_.is_open() || ops.Stat(directory.directory_.fd(), &facts) != 0) {
    const int fault = errno;
    return MakeError(fault == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                     "{}: cannot open the KV directory: {}; give --kv-disk a directory that this "
                     "user may read and write",
                     path.string(), std::strerror(fault));
  }
  directory.is_private_ = facts.st_uid == ::geteuid() && (facts.st_mode & 077) == 0;
  return directory;
}

Status DiskDirectory::Lock() {
  const std::filesystem::path path = path_ / kLockName;
  OpenFile lock(*ops_, ops_->Open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.is_open()) {
    return MakeError(ErrorCode::kIo,
                     "{}: cannot be opened: {}; a KV directory that may not be "
                     "written can be read with --kv-disk-read-only",
                     path.string(), std::strerror(errno));
  }
  if (::flock(lock.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return MakeError(ErrorCode::kIo, "{}: cannot be locked: {}", path.string(),
                       std::strerror(errno));
    }
    return MakeError(ErrorCode::kIo,
                     "{}: process {} writes to this KV directory already; one process may write, "
                     "others can read beside it with --kv-disk-read-only, or take another "
                     "directory",
                     path_.string(), PidIn(*ops_, lock.fd()));
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  const iovec part = PartOf(std::as_bytes(std::span(pid)));
  // Without the number the lock holds all the same.
  if (ops_->Truncate(lock.fd(), 0) == 0) (void)WriteFully(*ops_, lock.fd(), {&part, 1}, 0);
  lock_ = std::move(lock);
  if (!HoldsLock()) return MakeError(ErrorCode::kIo, "{}: went away", path.string());
  return {};
}

bool DiskDirectory::HoldsLock() const {
  if (!lock_.is_open()) return false;
  struct stat held{};
  struct stat there{};
  if (::fstat(lock_.fd(), &held) != 0) return false;
  if (::stat((path_ / kLockName).c_str(), &there) != 0) return false;
  return held.st_ino == there.st_ino && held.st_dev == there.st_dev;
}

std::vector<DiskDirectory::File> DiskDirectory::List() const {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(path_.c_str()), &::closedir);
  std::vector<File> files;
  if (entries == nullptr) return files;
  while (const dirent* entry = ::readdir(entries.get())) {
    struct stat facts{};
    if (::fstatat(::dirfd(entries.get()), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    if (S_ISDIR(facts.st_mode)) continue;
    const auto length = static_cast<uint64_t>(std::max<off_t>(facts.st_size, 0));
    const auto taken = static_cast<uint64_t>(facts.st_blocks) * 512;
    files.push_back({.name = entry->d_name,
                     .bytes = std::max(length, taken),
                     .modified_s = static_cast<double>(facts.st_mtim.tv_sec) +
                                   1e-9 * static_cast<double>(facts.st_mtim.tv_nsec)});
  }
  return files;
}

uint64_t DiskDirectory::BytesOf(const std::vector<File>& files) {
  uint64_t bytes = 0;
  for (const File& file : files) bytes += file.bytes;
  return bytes;
}

std::optional<uint64_t> DiskDirectory::FreeBytes() const {
  struct statvfs facts{};
  if (ops_->StatFileSystem(directory_.fd(), &facts) != 0) return std::nullopt;
  return static_cast<uint64_t>(facts.f_bavail) * facts.f_frsize;
}

std::filesystem::path DiskDirectory::SlabPath(const Digest& fingerprint) const {
  return path_ / (ToHex(fingerprint) + std::string(kSlabEnding));
}
std::filesystem::path DiskDirectory::IndexPath(const Digest& fingerprint) const {
  return path_ / (ToHex(fingerprint) + std::string(kIndexEnding));
}
std::optional<Digest> DiskDirectory::SlabOf(const std::string& name) {
  return DigestOf(name, kSlabEnding);
}
std::optional<Digest> DiskDirectory::IndexOf(const std::string& name) {
  return DigestOf(name, kIndexEnding);
}

}  // namespace quire
