// What a directory may take: the cap on all bytes in it, and what must stay free on the disk.
// Used by one thread at a time: the writer's.
#pragma once

#include <cstdint>

#include "base/sha256.h"
#include "kv/tiers/disk/disk_directory.h"
#include "kv/tiers/disk/file_ops.h"

namespace quire {

class DiskSpace {
 public:
  // Kept below the cap: what file systems take beside the bytes that files have.
  static constexpr uint64_t kMargin = 32768;
  // Files grow by so much at once, and by kExtentSlots slots at least; but by no more than this
  // part of the cap, so that a small one is not the first model's alone.
  static constexpr uint64_t kExtentBytes = uint64_t{16} << 20;
  static constexpr int64_t kExtentSlots = 64;
  static constexpr uint64_t kCapParts = 16;

  DiskSpace(FileOps& ops, uint64_t max_bytes, uint64_t min_free_bytes)
      : ops_(ops), max_bytes_(max_bytes), min_free_bytes_(min_free_bytes) {}

  int64_t SlotsOfExtent(uint64_t slot_bytes) const;

  // Bytes that may be added; 0 = none.
  enum class Limit : uint8_t { kCapAlone, kCapAndFree };
  uint64_t Room(const DiskDirectory& directory, Limit limit) const;
  bool IsOver(const DiskDirectory& directory) const;
  // How long the model's slab may be, beside the others' files as they are.
  uint64_t MaxSlabBytes(const DiskDirectory& directory, const Digest& fingerprint,
                        uint64_t slot_bytes) const;

  // Takes so many bytes from other models, of those that were used least recently first; false
  // where there is nothing of theirs.
  bool TakeFromOthers(const DiskDirectory& directory, const Digest& own, uint64_t num_bytes) const;

 private:
  FileOps& ops_;
  uint64_t max_bytes_;
  uint64_t min_free_bytes_;
};

}  // namespace quire
