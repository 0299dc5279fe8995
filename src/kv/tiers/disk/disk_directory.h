// A directory of the disk tier: who may use it, what lies in it, and who writes.
// Used by one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "kv/tiers/disk/file_ops.h"

namespace quire {

class DiskDirectory {
 public:
  struct File {
    std::string name{};
    uint64_t bytes = 0;     // its length or what is set aside for it, whichever is more
    double modified_s = 0;  // Unix time
  };

  // kMake: with mode 0700.
  enum class Missing : uint8_t { kMake, kFail };
  static Result<DiskDirectory> Open(FileOps& ops, const std::filesystem::path& path,
                                    Missing missing);

  const std::filesystem::path& path() const { return path_; }
  // Only this user may enter it, and owns it.
  bool is_private() const { return is_private_; }

  // Becomes the writer, until it is destroyed. kIo where there is one, which the message names.
  Status Lock();
  // The LOCK that it holds is still the one in the directory: nobody else can be the writer.
  bool HoldsLock() const;

  // Empty where it cannot be read.
  std::vector<File> List() const;
  static uint64_t BytesOf(const std::vector<File>& files);
  // What an ordinary user may still take of its file system; nothing where that cannot be told.
  std::optional<uint64_t> FreeBytes() const;

  std::filesystem::path SlabPath(const Digest& fingerprint) const;
  std::filesystem::path IndexPath(const Digest& fingerprint) const;
  // The fingerprint of a slab's name, or of an index's; nothing for other names.
  static std::optional<Digest> SlabOf(const std::string& name);
  static std::optional<Digest> IndexOf(const std::string& name);

 private:
  DiskDirectory() = default;

  FileOps* ops_ = nullptr;
  std::filesystem::path path_;
  OpenFile directory_;
  OpenFile lock_;
  bool is_private_ = false;
};

}  // namespace quire
