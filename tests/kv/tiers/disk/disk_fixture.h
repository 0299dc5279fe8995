// Small models, blocks whose payload tells whose they are, and a disk tier of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kv/identity.h"
#include "kv/tiers/disk/disk_directory.h"
#include "kv/tiers/disk/disk_tier.h"
#include "support/scratch_directory.h"

namespace quire::testing {

inline constexpr size_t kPayloadBytes = 3000;  // a record takes one page

// Models differ in their weights. Two groups, the second with the shorter blocks.
inline StoredModel SmallModel(int which, size_t payload_bytes = kPayloadBytes) {
  FingerprintInput ingredients;
  ingredients.weights[0] = static_cast<uint8_t>(which);
  ingredients.numerics_version = 1;
  return {.fingerprint = FingerprintOf(ingredients),
          .ingredients = ingredients,
          .type = KvType::kF16,
          .group_bytes = {payload_bytes, payload_bytes / 2}};
}

inline std::shared_ptr<const RecordCodec> SmallCodec(int which = 0,
                                                     size_t payload_bytes = kPayloadBytes) {
  return std::make_shared<RecordCodec>(SmallModel(which, payload_bytes), nullptr, false);
}

// The blocks of a prompt whose token at position i is first + i.
inline std::vector<StoredBlock> Chain(const RecordCodec& codec, int32_t first, int num_blocks,
                                      std::string_view salt = {}, int group = 0) {
  const Digest root = RootOf(codec.model().fingerprint, salt);
  std::vector<StoredBlock> blocks;
  Digest parent = root;
  for (int i = 0; i < num_blocks; ++i) {
    StoredBlock block = {.parent = parent, .root = root, .group = group, .entry = i};
    for (int slot = 0; slot < kBlockSlots; ++slot) {
      block.tokens[static_cast<size_t>(slot)] = first + i * kBlockSlots + slot;
    }
    block.id = ChildOf(parent, block.tokens);
    parent = block.id;
    blocks.push_back(block);
  }
  return blocks;
}

// Different for every block, and in every place of one.
inline std::vector<std::byte> PayloadOf(const RecordCodec& codec, const StoredBlock& block) {
  uint64_t state = 0;
  std::memcpy(&state, block.id.data(), sizeof(state));
  state += static_cast<uint64_t>(block.group);
  std::vector<std::byte> payload(codec.model().group_bytes[static_cast<size_t>(block.group)]);
  for (size_t at = 0; at < payload.size(); at += sizeof(state)) {
    state = (state ^ (state >> 29)) * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(payload.data() + at, &state, std::min(sizeof(state), payload.size() - at));
  }
  return payload;
}

inline TierDeadline Soon() { return std::chrono::steady_clock::now() + std::chrono::minutes(1); }

inline StoreOutcome StoreOne(Tier& tier, const RecordCodec& codec, const StoredBlock& block) {
  return tier.Store(block, PayloadOf(codec, block), Soon());
}

// The fault, having checked that without one the payload is the block's.
inline RecordFault LoadOne(Tier& tier, const RecordCodec& codec, const StoredBlock& block) {
  const std::vector<std::byte> wanted = PayloadOf(codec, block);
  std::vector<std::byte> payload(wanted.size(), std::byte{0x5A});
  const BlockLoad load = {.block = block, .payload = payload};
  RecordFault result = RecordFault::kNone;
  int num_told = 0;
  tier.Load({&load, 1}, Soon(), nullptr, [&](size_t idx, RecordFault fault) {
    EXPECT_EQ(idx, 0u);
    result = fault;
    ++num_told;
  });
  EXPECT_EQ(num_told, 1);
  if (result == RecordFault::kNone) {
    EXPECT_TRUE(payload == wanted) << "a wrong block: entry " << block.entry;
  }
  return result;
}

inline int64_t NumFaults(const Tier& tier) {
  int64_t sum = 0;
  for (const int64_t count : tier.status().counters.faults) sum += count;
  return sum;
}
inline int64_t NumFaults(const Tier& tier, RecordFault fault) {
  return tier.status().counters.faults[static_cast<size_t>(fault)];
}

// All bytes below a directory, as `du` counts them or as they are long, whichever is more.
inline uint64_t BytesIn(const std::filesystem::path& path) {
  auto directory = DiskDirectory::Open(FileOps::System(), path, DiskDirectory::Missing::kFail);
  return directory.ok() ? DiskDirectory::BytesOf(directory->List()) : 0;
}

// A directory for a tier, its options, and the tier when open.
class DiskStore {
 public:
  explicit DiskStore(int model = 0, size_t payload_bytes = kPayloadBytes)
      : codec_(SmallCodec(model, payload_bytes)) {
    options.directory = scratch_.path() / "kv";
    options.max_bytes = 4 << 20;
    options.min_free_bytes = 0;
  }

  DiskTierOptions options;

  const std::filesystem::path& path() const { return options.directory; }
  const RecordCodec& codec() const { return *codec_; }
  std::shared_ptr<const RecordCodec> shared_codec() const { return codec_; }
  Tier& tier() { return *tier_; }
  bool is_open() const { return tier_ != nullptr; }

  Status TryOpen() {
    Close();
    auto tier = OpenDiskTier(codec_, options);
    if (!tier.ok()) return tier.error();
    tier_ = std::move(*tier);
    return {};
  }
  void Open() {
    const Status status = TryOpen();
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  void Close() { tier_.reset(); }

  StoreOutcome Store(const StoredBlock& block) { return StoreOne(*tier_, *codec_, block); }
  RecordFault Load(const StoredBlock& block) { return LoadOne(*tier_, *codec_, block); }
  std::vector<StoredBlock> Prompt(int32_t first, int num_blocks, std::string_view salt = {}) {
    return Chain(*codec_, first, num_blocks, salt);
  }
  void StoreAll(const std::vector<StoredBlock>& blocks) {
    for (const StoredBlock& block : blocks) ASSERT_EQ(Store(block), StoreOutcome::kStored);
  }
  int NumLoadable(const std::vector<StoredBlock>& blocks) {
    int num = 0;
    for (const StoredBlock& block : blocks) num += Load(block) == RecordFault::kNone ? 1 : 0;
    return num;
  }
  std::filesystem::path slab() const { return FileWith(".slab"); }
  std::filesystem::path index() const { return FileWith(".index"); }

 private:
  std::filesystem::path FileWith(const char* ending) const {
    return path() / (ToHex(codec_->model().fingerprint) + ending);
  }

  ScratchDirectory scratch_;
  std::shared_ptr<const RecordCodec> codec_;
  std::unique_ptr<Tier> tier_;
};

}  // namespace quire::testing
