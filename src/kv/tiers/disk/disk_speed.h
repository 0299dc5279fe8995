// How fast a disk gives records back, tried out: by reading some that are there, or one that is
// made for it and has no name.
// Used by one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "kv/tiers/disk/file_ops.h"
#include "kv/tiers/disk/slot_files.h"
#include "kv/tiers/record_codec.h"
#include "kv/tiers/tier.h"

namespace quire {

class DiskSpeedTrial {
 public:
  static constexpr size_t kSlots = 6;  // are enough

  DiskSpeedTrial(FileOps& ops, TierDeadline deadline) : ops_(ops), deadline_(deadline) {}

  // Nothing where none could be read in time.
  std::optional<TierSpeed> OfSlots(const SlotFiles& files, std::span<const int64_t> slots);
  // Of a file of its own, which is in no directory and is gone with its end. Nothing where the file
  // system has no such files.
  std::optional<TierSpeed> OfDirectory(const std::filesystem::path& directory,
                                       const RecordCodec& codec);

 private:
  // Reads with `read(bytes)`, which fills them: a page for the latency, then all, and proves it.
  template <typename Read>
  std::optional<TierSpeed> Time(uint64_t num_bytes, const Read& read);

  FileOps& ops_;
  TierDeadline deadline_;
};

}  // namespace quire
