// What is asked of tiers for a waiting sequence, what is decided, and how long anybody waits: under
// a clock that stands still.
#include "engine/tier_loads.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "engine/batch.h"
#include "kv/kv_cache.h"
#include "support/memory_tier.h"

namespace quire {
namespace {

using testing::MemoryStore;

constexpr int kTokens = 20 * kBlockSlots + 3;
constexpr SequenceId kSequence = 1;

class TierLoadsTest : public ::testing::Test {
 protected:
  void Make(TierSpeed speed = {.latency_ms = 1, .bytes_per_ms = 1e6}, int num_blocks = 64) {
    const std::vector<KvLayerShape> shapes(2, {.num_kv_heads = 1, .key_dim = 16, .value_dim = 16});
    KvLayout layout = *KvLayout::Make(shapes, KvType::kF16);
    StoredModel model{.fingerprint = FingerprintOf({}), .type = KvType::kF16};
    for (const KvGroup& group : layout.groups) model.group_bytes.push_back(group.bytes);
    block_bytes_ = layout.block_bytes;
    codec_ = std::make_shared<const RecordCodec>(std::move(model), nullptr, false);
    cache_ = *KvCache::Create(std::move(layout), num_blocks);
    std::vector<std::unique_ptr<Tier>> tiers;
    tiers.push_back(testing::OpenMemoryTier(codec_, store_, {.speed = speed}));
    tier_ = tiers.front().get();
    tiers_ = TierSet::Create(codec_, std::move(tiers), {});
    tiers_->Measure(Now() + std::chrono::seconds(1));
    loads_ = std::make_unique<TierLoads>(*tiers_, *cache_, TierLoadOptions{});
    tokens_.resize(kTokens);
    std::iota(tokens_.begin(), tokens_.end(), 0);
  }

  // The tier holds entries first..end - 1, each filled with its number.
  void Store(int first, int end) {
    IdentityChain chain(root_);
    chain.Extend(tokens_);
    for (int entry = first; entry < end; ++entry) {
      StoredBlock block{
          .id = chain.ids()[entry], .parent = chain.parent(entry), .root = root_, .entry = entry};
      std::copy_n(tokens_.begin() + entry * kBlockSlots, kBlockSlots, block.tokens.begin());
      const std::vector<std::byte> payload(block_bytes_, static_cast<std::byte>(entry));
      ASSERT_EQ(tier_->Store(block, payload, Now() + std::chrono::seconds(1)),
                StoreOutcome::kStored);
    }
  }

  static TierDeadline Now() { return std::chrono::steady_clock::now(); }

  LoadMoment Moment(PrefillCost prefill = {.token_ms = 1}) {
    return {.now_ms = now_ms_, .now = Now(), .prefill = prefill};
  }
  void Begin(PrefillCost prefill = {.token_ms = 1}) {
    loads_->Begin({.sequence = kSequence, .root = root_, .tokens = tokens_}, Moment(prefill));
    loads_->Pump(Moment(prefill));
  }
  // Until nothing is on its way any more.
  void PumpToEnd(PrefillCost prefill = {.token_ms = 1}) {
    while (loads_->IsLoading(kSequence, kTokens) || !loads_->is_idle()) {
      tiers_->WaitForEvents(std::chrono::milliseconds(10));
      loads_->Pump(Moment(prefill));
      loads_->CheckInvariants();
      cache_->CheckInvariants();
    }
  }
  // A sequence that could run waits as long as it is to, looked at after every so many ms.
  void HoldBackInStepsOf(double step_ms) {
    while (loads_->Awaits(kSequence)) {
      loads_->HoldBack(kSequence, now_ms_);
      now_ms_ += step_ms;
      loads_->Pump(Moment());
    }
  }
  int Found() {
    IdentityChain chain(root_);
    return cache_->Match(chain, tokens_, kTokens - 1).num_tokens;
  }

  Digest root_{2};
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  std::shared_ptr<const RecordCodec> codec_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<TierSet> tiers_;
  std::unique_ptr<TierLoads> loads_;
  Tier* tier_ = nullptr;
  size_t block_bytes_ = 0;
  std::vector<int32_t> tokens_;
  double now_ms_ = 1000;
};

TEST_F(TierLoadsTest, BringsWhatATierHas) {
  Make();
  Store(0, 20);
  Begin();
  EXPECT_TRUE(loads_->Awaits(kSequence));
  PumpToEnd();
  EXPECT_FALSE(loads_->Awaits(kSequence));
  EXPECT_EQ(Found(), 20 * kBlockSlots);
  EXPECT_EQ(loads_->SourceOf(kSequence, 0), TierKind::kDisk);
  EXPECT_EQ(cache_->usage().used_blocks, 0);
  loads_->End(kSequence);
}

TEST_F(TierLoadsTest, BringsNothingBehindAGap) {
  Make();
  Store(0, 5);
  Store(6, 20);
  Begin();
  PumpToEnd();
  EXPECT_EQ(Found(), 5 * kBlockSlots);
  EXPECT_EQ(cache_->counters().blocks_loaded, 5);
}

// The beginning in memory is the oldest of all blocks: the first to go, but for the load.
TEST_F(TierLoadsTest, WhatMemoryHasOfAPrefixDoesNotGiveWayToTheRest) {
  Make({.latency_ms = 1, .bytes_per_ms = 1e6}, 20);
  Store(0, 20);
  const auto most = std::span<const int32_t>(tokens_).first(8 * kBlockSlots);
  {
    BlockTables tables = *cache_->Acquire(root_, most, 0);
    ASSERT_TRUE(cache_->Reserve(tables, 8 * kBlockSlots));
    cache_->Commit(tables, most);
  }
  {
    BlockTables other = cache_->AcquirePrivate();  // leaves nothing but used blocks
    ASSERT_TRUE(cache_->Reserve(other, 12 * kBlockSlots));
  }
  Begin();
  PumpToEnd();
  EXPECT_EQ(Found(), 20 * kBlockSlots);
  EXPECT_EQ(cache_->counters().blocks_loaded, 12);
}

TEST_F(TierLoadsTest, WaitsForNothingWhereNothingIsThere) {
  Make();
  Begin();
  EXPECT_FALSE(loads_->Awaits(kSequence));
  EXPECT_EQ(loads_->counters().tokens_asked, 20 * kBlockSlots);
}

TEST_F(TierLoadsTest, NobodyIsHeldBackForLongerThanAllowed) {
  Make();
  Store(0, 20);
  store_->SetFaults({.loads_hang = true, .hang_passes_deadline = true});
  Begin();
  const double start_ms = now_ms_;
  while (loads_->Awaits(kSequence)) {
    loads_->HoldBack(kSequence, now_ms_);
    now_ms_ += 10;
    loads_->Pump(Moment());
    ASSERT_LE(now_ms_ - start_ms, 250);
  }
  EXPECT_LE(loads_->WaitedMs(kSequence), 250);
  EXPECT_GE(loads_->WaitedMs(kSequence), 240);
  // What it waited before counts as well.
  loads_->End(kSequence);
  loads_->Begin({.sequence = 2, .root = root_, .tokens = tokens_, .waited_ms = 250}, Moment());
  EXPECT_FALSE(loads_->Awaits(2));
  store_->SetFaults({});
  PumpToEnd();
  loads_->End(2);
}

// Between two looks at it lies a step of others: one that would go beyond is not begun.
TEST_F(TierLoadsTest, ALongStepOfOthersIsPartOfTheWait) {
  Make();
  Store(0, 20);
  store_->SetFaults({.loads_hang = true, .hang_passes_deadline = true});
  Begin();
  HoldBackInStepsOf(90);
  EXPECT_EQ(loads_->WaitedMs(kSequence), 180);
  store_->SetFaults({});
  PumpToEnd();
}

TEST_F(TierLoadsTest, ATierThatLetSomebodyWaitInVainIsLeftAloneForAWhile) {
  Make();
  Store(0, 20);
  store_->SetFaults({.loads_hang = true, .hang_passes_deadline = true});
  Begin();
  HoldBackInStepsOf(10);
  const auto begin_next = [&](SequenceId sequence) {
    loads_->Begin({.sequence = sequence, .root = root_, .tokens = tokens_}, Moment());
    loads_->Pump(Moment());
    return loads_->Awaits(sequence);
  };
  EXPECT_FALSE(begin_next(2));
  PrefixMiss miss{.reason = MissReason::kNeverSeen};
  loads_->Explain(2, miss);
  EXPECT_EQ(miss.reason, MissReason::kTierDown);
  now_ms_ += 2000;
  EXPECT_TRUE(begin_next(3));
  store_->SetFaults({});
  PumpToEnd();
  // It has brought something: all is well again.
  cache_->DropCached();
  EXPECT_TRUE(begin_next(4));
  while (!loads_->is_idle()) {
    tiers_->WaitForEvents(std::chrono::milliseconds(10));
    loads_->Pump(Moment());
  }
}

TEST_F(TierLoadsTest, TimeInWhichItCouldNotHaveRunIsNotCounted) {
  Make();
  Store(0, 20);
  store_->SetFaults({.loads_hang = true, .hang_passes_deadline = true});
  Begin();
  now_ms_ += 10'000;
  loads_->Pump(Moment());
  EXPECT_EQ(loads_->WaitedMs(kSequence), 0);
  EXPECT_TRUE(loads_->Awaits(kSequence));
  store_->SetFaults({});
  PumpToEnd();
}

TEST_F(TierLoadsTest, TurnsToComputingWhereThatIsSooner) {
  // 320 tokens take 320 ms to compute.
  const double bytes = 20.0 * 2048;
  for (const auto& [ms, choice] :
       {std::pair{3200.0, LoadChoice::kRecompute}, std::pair{400.0, LoadChoice::kSplit},
        std::pair{32.0, LoadChoice::kLoad}}) {
    SCOPED_TRACE(ms);
    store_ = std::make_shared<MemoryStore>();
    loads_.reset();
    tiers_.reset();
    Make({.latency_ms = 0, .bytes_per_ms = bytes / ms});
    ASSERT_EQ(block_bytes_, 2048u);
    Store(0, 20);
    Begin();
    EXPECT_EQ(loads_->counters().choices[static_cast<size_t>(choice)], 1);
    EXPECT_EQ(loads_->Awaits(kSequence), choice == LoadChoice::kLoad);
    PumpToEnd();
    loads_->End(kSequence);
  }
}

TEST_F(TierLoadsTest, ATierThatIsTooSlowIsTriedNowAndThen) {
  Make({.latency_ms = 0, .bytes_per_ms = .1});
  Store(0, 20);
  Begin();
  EXPECT_FALSE(loads_->IsLoading(kSequence, kTokens));
  loads_->End(kSequence);
  // In truth it is fast; each trial is a block that says so.
  for (int trial = 1; trial <= TierSpeedMeter::kSamples; ++trial) {
    now_ms_ += 60'000;
    cache_->DropCached();
    Begin();
    if (loads_->Awaits(kSequence)) break;
    PumpToEnd();
    EXPECT_EQ(cache_->counters().blocks_loaded, trial);
    loads_->End(kSequence);
  }
  EXPECT_TRUE(loads_->Awaits(kSequence));
  PumpToEnd();
}

TEST_F(TierLoadsTest, ASplitLoadsTheEndAndNotWhatIsComputedMeanwhile) {
  Make({.latency_ms = 0, .bytes_per_ms = 20.0 * 2048 / 320});
  Store(0, 20);
  Begin();
  EXPECT_FALSE(loads_->Awaits(kSequence));
  PumpToEnd();
  // Half of it: what comes before is computed in the same time.
  EXPECT_GE(cache_->counters().blocks_loaded, 9);
  EXPECT_LE(cache_->counters().blocks_loaded, 11);
  EXPECT_EQ(Found(), 0);
  EXPECT_EQ(loads_->EndToken(kSequence), 20 * kBlockSlots);
}

TEST_F(TierLoadsTest, LoadsNothingThatWasComputedMeanwhile) {
  // Two blocks at a time, and much sooner than computing.
  constexpr PrefillCost kDear{.token_ms = 1000};
  Make({.latency_ms = 0, .bytes_per_ms = 2 * 2048 / 25.0});
  Store(0, 20);
  store_->SetFaults({.loads_hang = true});
  Begin(kDear);
  loads_->Advance(kSequence, kTokens);
  store_->SetFaults({});
  PumpToEnd(kDear);
  EXPECT_GT(cache_->counters().blocks_loaded, 0);
  EXPECT_LT(cache_->counters().blocks_loaded, 20);
}

TEST_F(TierLoadsTest, APoolWithoutRoomIsNotFilled) {
  Make({.latency_ms = 1, .bytes_per_ms = 1e6}, 4);
  Store(0, 20);
  Begin();
  for (int i = 0; i < 50 && Found() < 4 * kBlockSlots; ++i) {
    tiers_->WaitForEvents(std::chrono::milliseconds(10));
    loads_->Pump(Moment());
    cache_->CheckInvariants();
  }
  EXPECT_EQ(Found(), 4 * kBlockSlots);
  EXPECT_LE(cache_->usage().used_blocks, 4);
  loads_->End(kSequence);
  while (!loads_->is_idle()) {
    tiers_->WaitForEvents(std::chrono::milliseconds(10));
    loads_->Pump(Moment());
  }
  EXPECT_EQ(cache_->usage().used_blocks, 0);
}

}  // namespace
}  // namespace quire
