// A file mapped read-only into memory.
//
// Owns the mapping and nothing else: the descriptor is closed once the file is mapped. Move-only.
// Thread-compatible; the bytes may be read by any number of threads.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace quire {

// What tells whether a file is still the one seen before.
struct FileIdentity {
  uint64_t size_bytes = 0;
  int64_t modified_ns = 0;
  uint64_t inode = 0;
  uint64_t device = 0;

  bool operator==(const FileIdentity&) const = default;
};

class MappedFile {
 public:
  // Fails for a missing file, a directory or an unreadable file. An empty file maps to no bytes.
  static Result<MappedFile> Open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const FileIdentity& identity() const { return identity_; }

  // Tells the system that the pages of [offset, offset + length) are not needed. They stay
  // in the page cache and leave this process's resident memory.
  void Release(size_t offset, size_t length) const;

 private:
  MappedFile(std::span<const std::byte> bytes, FileIdentity identity)
      : bytes_(bytes), identity_(identity) {}

  std::span<const std::byte> bytes_;
  FileIdentity identity_;
};

}  // namespace quire
