// Tier sets over memory: blocks by number, whose bytes are known by heart.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "kv/tiers/tier_set.h"
#include "support/memory_tier.h"

namespace quire::testing {

inline constexpr size_t kGroupBytes[] = {320, 192};  // of a block's payload

inline std::shared_ptr<const RecordCodec> CodecOfModel(uint8_t number) {
  StoredModel model{.type = KvType::kF16, .group_bytes = {kGroupBytes[0], kGroupBytes[1]}};
  model.ingredients.weights.fill(number);
  model.fingerprint = FingerprintOf(model.ingredients);
  return std::make_shared<const RecordCodec>(std::move(model), nullptr, false);
}

// The first block of prompt `number`.
inline StoredBlock BlockOf(const RecordCodec& codec, int number, int group = 0) {
  StoredBlock block{.root = RootOf(codec.model().fingerprint, ""), .group = group, .entry = 0};
  block.tokens.fill(number);
  block.parent = block.root;
  block.id = ChildOf(block.parent, block.tokens);
  return block;
}

inline std::vector<std::byte> PayloadOf(int number, int group = 0) {
  std::vector<std::byte> payload(kGroupBytes[group]);
  for (size_t i = 0; i < payload.size(); ++i) {
    payload[i] = static_cast<std::byte>(static_cast<size_t>(number) * 31 + i * 7 + 1);
  }
  return payload;
}

inline TierDeadline In(double ms) {
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<TierDeadline::duration>(
                                                std::chrono::duration<double, std::milli>(ms));
}

inline TierDeadline Never() { return In(60000); }

inline constexpr MemoryTierOptions kRemote{.kind = TierKind::kRemote, .knows_all = false};

class TierSetTest : public ::testing::Test {
 protected:
  ~TierSetTest() override {
    for (const auto& store : stores_) store->SetFaults({});
  }

  // A tier with a store of its own.
  void AddTier(const MemoryTierOptions& options = {}) {
    stores_.push_back(std::make_shared<MemoryStore>());
    tiers_.push_back(OpenMemoryTier(codec_, stores_.back(), options));
  }
  void Open(const TierSetOptions& options = {}) {
    set_ = TierSet::Create(codec_, std::move(tiers_), options);
  }

  OfferOutcome Offer(int number, int group = 0) {
    return set_->Offer(BlockOf(*codec_, number, group), PayloadOf(number, group));
  }
  // Blocks 0..num_blocks-1 are in every tier.
  void Fill(int num_blocks) {
    for (int i = 0; i < num_blocks; ++i) {
      while (Offer(i) == OfferOutcome::kNoRoom) ASSERT_TRUE(set_->Flush(Never()).ok());
    }
    ASSERT_TRUE(set_->Flush(Never()).ok());
  }

  std::vector<BlockKey> Keys(int first, int end) const {
    std::vector<BlockKey> keys;
    for (int i = first; i < end; ++i) keys.push_back(BlockOf(*codec_, i).key());
    return keys;
  }
  // Loads of blocks first..end-1, whose bytes go to memory_.
  std::vector<BlockLoad> Loads(int first, int end) {
    std::vector<BlockLoad> loads;
    memory_.emplace_back(static_cast<size_t>(end - first) * kGroupBytes[0]);
    for (int i = first; i < end; ++i) {
      loads.push_back({.block = BlockOf(*codec_, i),
                       .payload = std::span(memory_.back())
                                      .subspan(static_cast<size_t>(i - first) * kGroupBytes[0],
                                               kGroupBytes[0])});
    }
    return loads;
  }

  // What comes until there are so many events.
  std::vector<TierEvent> Await(size_t num_events) {
    std::vector<TierEvent> events;
    while (events.size() < num_events) {
      if (!set_->WaitForEvents(std::chrono::seconds(60))) break;
      for (TierEvent& event : set_->TakeEvents()) events.push_back(std::move(event));
    }
    EXPECT_EQ(events.size(), num_events);
    return events;
  }
  static size_t NumWith(const std::vector<TierEvent>& events, RecordFault fault) {
    size_t num = 0;
    for (const TierEvent& event : events) num += event.fault == fault ? 1 : 0;
    return num;
  }
  int64_t NumFaults(int tier, RecordFault fault) const {
    return set_->status()[static_cast<size_t>(tier)].counters.faults[static_cast<size_t>(fault)];
  }

  std::shared_ptr<const RecordCodec> codec_ = CodecOfModel(1);
  std::vector<std::shared_ptr<MemoryStore>> stores_;
  std::vector<std::unique_ptr<Tier>> tiers_;
  std::vector<std::vector<std::byte>> memory_;
  std::unique_ptr<TierSet> set_;
};

}  // namespace quire::testing
