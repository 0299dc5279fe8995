// How fast a directory's files are read: what `quire plan --kv-disk` weighs computing against.
#pragma once

#include <cstddef>
#include <filesystem>

#include "base/result.h"
#include "kv/tiers/tier_speed.h"

namespace quire {

inline constexpr size_t kDiskSpeedBytes = size_t{64} << 20;

// Writes a file of kDiskSpeedBytes into the directory, asks the system to let go of it, and reads
// it: pieces of 16 KiB for the latency, then the rest. The file has no name by then, so nothing of
// it stays, whatever happens. Where the system keeps it in memory all the same, and in file systems
// that live there, that is the speed of memory. kNotFound without such a directory,
// kResourceExhausted without room for it, kIo where it cannot be written.
Result<TierSpeed> MeasureDiskSpeed(const std::filesystem::path& directory);

}  // namespace quire
