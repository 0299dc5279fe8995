// Packed weights: in memory, with the digest that names them, and in a file of the cache.
//
// Packing reads a model file's tensors once, on all threads, interleaves their rows for the kernels
// and hashes them on the way. The digest is of the logical tensors alone (names, types, shapes,
// bytes): not of the file's name, its container or metadata that computes nothing.
// docs/pack-format.md has the file byte by byte.
#pragma once

#include <filesystem>
#include <functional>

#include "base/huge_buffer.h"
#include "base/sha256.h"
#include "models/weight_plan.h"

namespace quire {

class ThreadPool;

// Layouts that an older Quire wrote are not read: raised when tensor/packed_matrix.h changes.
inline constexpr uint32_t kPackLayoutVersion = 1;

struct Pack {
  HugeBuffer memory;                   // [plan.packed_bytes]
  std::vector<Digest> tensor_digests;  // [plan.weights]
  Digest digest{};                     // of all of them
};

// Called from time to time with bytes done and bytes in all; returns false to stop.
using PackProgress = std::function<bool(size_t done_bytes, size_t total_bytes)>;

// Packs every tensor of the plan. The pages of the source leave this process's memory as they are
// read. Fails with kInterrupted when `progress` says so.
Result<Pack> PackWeights(const GgufFile& file, const WeightPlan& plan, ThreadPool& pool,
                         const PackProgress& progress);

// Hashes the tensors of a file again: Pack::digest without the packing.
Digest DigestWeights(const GgufFile& file, const WeightPlan& plan, ThreadPool& pool);

// Bytes of the file that holds a pack of this plan.
uint64_t PackFileBytes(const WeightPlan& plan);

// Writes under a temporary name, syncs and renames: a reader sees a whole pack or none. Stops, and
// leaves nothing, when `cancelled` returns true.
Status WritePackFile(const std::filesystem::path& path, const WeightPlan& plan, const Pack& pack,
                     const std::function<bool()>& cancelled);

// Reads a pack of exactly this plan, in parallel, hashing nothing but the header. kCorrupt for a
// file that is damaged, of another layout or of other tensors.
Result<Pack> ReadPackFile(const std::filesystem::path& path, const WeightPlan& plan,
                          ThreadPool& pool);

}  // namespace quire
