// The disk tier: blocks of one model in a directory (docs/kv-directory.md).
//
//   DIR/LOCK                 held by the one writer
//   DIR/<fingerprint>.slab   equal slots, each a record (kv/tiers/record_codec.h) that proves
//   itself DIR/<fingerprint>.index  one dense entry a slot; may be missing: it is made again from
//   the slots
//
// One process writes to a directory; others of the same user may read it meanwhile. Files grow by
// whole extents that the system has set aside, so that the cap is exact and a full disk is met when
// growing and not when writing. A slot is unlisted before it is written and listed after: a process
// that dies at any moment leaves no wrong block.
//
// A directory that only its owner may enter (mode 0700, same user) is trusted: a record needs no
// seal there. Another one is taken only with keys, or where trust_directory says so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "kv/tiers/disk/file_ops.h"
#include "kv/tiers/record_codec.h"
#include "kv/tiers/tier.h"

namespace quire {

struct DiskTierOptions {
  std::filesystem::path directory{};            // made, with mode 0700, where it is not there
  uint64_t max_bytes = uint64_t{20} << 30;      // of all files in it
  uint64_t min_free_bytes = uint64_t{1} << 30;  // left on the file system
  uint64_t tenant_max_bytes = 0;                // of one tenant's records; 0 = no quota
  bool read_only = false;                       // beside another process that writes
  bool trust_directory = false;
  // What a token costs to compute at a position, relative to the first (1 = the same): what a block
  // is worth keeping for. Empty = all the same.
  std::function<double(int entry)> cost{};
  FileOps* files = nullptr;         // null = the system's; outlives the tier; tests inject faults
  std::function<double()> now_s{};  // Unix time in seconds; empty = the system's
};

// Fails, saying what to do, where the directory cannot be made, is not to be trusted, or has a
// writer already (kIo); faults later only make it miss.
Result<std::unique_ptr<Tier>> OpenDiskTier(std::shared_ptr<const RecordCodec> codec,
                                           const DiskTierOptions& options);

}  // namespace quire
