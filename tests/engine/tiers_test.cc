// Prefixes that leave memory and come back: after a restart, after eviction, beside faults.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/requests_fixture.h"
#include "support/memory_tier.h"
#include "support/throttled_tier.h"

namespace quire {
namespace {

using testing::MemoryStore;
using testing::MemoryTierFaults;
using testing::MemoryTierOptions;
using testing::RunOne;
using testing::TinyModel;

constexpr int kPrompt = 100;  // six whole blocks and four tokens
constexpr int kWhole = 96;

class TiersTest : public testing::RequestsFixture {
 protected:
  struct Setup {
    std::string model = testing::kRequestsModel;
    int num_blocks = 0;  // 0 = plenty
    MemoryTierOptions tier{};
    double max_wait_ms = 250;
    KvType kv_type = KvType::kF16;
    std::shared_ptr<testing::Throttle> throttle{};
    std::shared_ptr<const KeyRing> keys{};
    int max_batched_tokens = 512;
  };

  std::unique_ptr<Engine> Make(const Setup& setup) {
    EngineOptions options{.runner = {.num_threads = 1,
                                     .context_length = 256,
                                     .kv_type = setup.kv_type,
                                     .num_sequences = 16}};
    options.scheduler.max_batched_tokens = setup.max_batched_tokens;
    const std::filesystem::path path = TinyModel(setup.model);
    if (setup.num_blocks > 0) {
      options.runner.kv_bytes = testing::PoolBytes(path, setup.num_blocks);
    }
    options.tiers.max_wait_ms = setup.max_wait_ms;
    options.tiers.idle_ms = 0;
    options.tiers.keys = setup.keys;
    options.tiers.factories.push_back(
        [this, setup](std::shared_ptr<const RecordCodec> codec) -> Result<std::unique_ptr<Tier>> {
          std::unique_ptr<Tier> tier = testing::OpenMemoryTier(codec, store_, setup.tier);
          if (setup.throttle) tier = testing::ThrottleTier(std::move(tier), setup.throttle);
          return tier;
        });
    return testing::MakeTestEngine(path, options);
  }
  std::unique_ptr<Engine> Make() { return Make(Setup{}); }

  static RequestResult Cold(const Request& request, const std::string& model = "tiny-llama",
                            KvType type = KvType::kF16) {
    const auto engine = testing::MakeTestEngine(
        TinyModel(model), {.runner = {.num_threads = 1, .context_length = 256, .kv_type = type}});
    return RunOne(*engine, request);
  }

  // Computes a prompt and leaves its blocks in the tier.
  void Fill(const Request& request, const Setup& setup) {
    const auto engine = Make(setup);
    RunOne(*engine, request);
    EXPECT_EQ(engine->FlushTiers(), 0);
    EXPECT_GT(store_->num_records(), 0u);
  }
  void Fill(const Request& request) { Fill(request, Setup{}); }

  // Steps until it has ended, whatever else is under way.
  static RequestResult RunBeside(Engine& engine, const Request& request) {
    std::optional<RequestResult> result;
    const auto id =
        engine.Submit(request, {.on_finish = [&](RequestResult r) { result = std::move(r); }});
    EXPECT_TRUE(id.ok());
    while (!result) {
      engine.Step();
      engine.CheckInvariants();
    }
    return std::move(*result);
  }

  static void ExpectSame(const RequestResult& one, const RequestResult& other) {
    ASSERT_TRUE(one.status.ok());
    ASSERT_EQ(one.choices.size(), other.choices.size());
    for (size_t i = 0; i < one.choices.size(); ++i) {
      EXPECT_EQ(one.choices[i].tokens, other.choices[i].tokens);
      ASSERT_EQ(one.choices[i].log_probs.size(), other.choices[i].log_probs.size());
      for (size_t k = 0; k < one.choices[i].log_probs.size(); ++k) {
        EXPECT_EQ(one.choices[i].log_probs[k].chosen.log_prob,
                  other.choices[i].log_probs[k].chosen.log_prob);
      }
    }
  }

  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  Request request_ = Sampled(Ascending(kPrompt), 8);
};

TEST_F(TiersTest, APrefixComesBackAfterARestart) {
  for (const std::string model : {"tiny-llama", "tiny-gemma3", "tiny-qwen3", "tiny-classic"}) {
    SCOPED_TRACE(model);
    store_ = std::make_shared<MemoryStore>();
    Fill(request_, {.model = model});
    const auto engine = Make({.model = model});
    const RequestResult result = RunOne(*engine, request_);
    EXPECT_EQ(result.cached_tokens, kWhole);
    EXPECT_EQ(result.cached_by_tier.disk, kWhole);
    EXPECT_EQ(result.miss.position, kWhole);
    ExpectSame(result, Cold(request_, model));
    engine->CheckInvariants();
  }
}

TEST_F(TiersTest, ALoadedPrefixIsThereForEverybodyAfterIt) {
  Fill(request_);
  const auto engine = Make();
  RunOne(*engine, request_);
  const int64_t loads = store_->num_loads();
  const RequestResult again = RunOne(*engine, request_);
  EXPECT_EQ(again.cached_by_tier.disk, 0);
  EXPECT_EQ(again.cached_by_tier.memory, kPrompt - 1);
  EXPECT_EQ(store_->num_loads(), loads);
}

TEST_F(TiersTest, ALongerPromptLoadsWhatItHasInCommon) {
  Fill(request_);
  Request longer = request_;
  for (const int32_t token : Ascending(60, 3)) longer.prompt.push_back(token);
  const auto engine = Make();
  const RequestResult result = RunOne(*engine, longer);
  EXPECT_EQ(result.cached_by_tier.disk, kWhole);
  ExpectSame(result, Cold(longer));
}

TEST_F(TiersTest, WhatIsEvictedComesBack) {
  const Setup small{.num_blocks = 17};
  const auto engine = Make(small);
  const RequestResult first = RunOne(*engine, request_);
  for (int i = 1; i <= 4; ++i) RunOne(*engine, Sampled(Ascending(kPrompt, i), 8));
  EXPECT_GT(engine->cache().counters().blocks_evicted, 0);
  EXPECT_EQ(engine->FlushTiers(), 0);
  const RequestResult again = RunOne(*engine, request_);
  EXPECT_GT(again.cached_by_tier.disk, 0);
  ExpectSame(again, first);
}

TEST_F(TiersTest, IdleTimeWritesWhatOnlyMemoryHolds) {
  const auto engine = Make();
  RunOne(*engine, request_);
  EXPECT_GT(engine->cache().num_fresh(), 0);
  while (engine->RunIdle()) {
  }
  EXPECT_EQ(engine->cache().num_fresh(), 0);
  EXPECT_FALSE(engine->RunIdle().has_value());
}

TEST_F(TiersTest, ASecondUseWrites) {
  const auto engine = Make();
  RunOne(*engine, request_);
  const int64_t fresh = engine->cache().num_fresh();
  RunOne(*engine, request_);
  EXPECT_LT(engine->cache().num_fresh(), fresh);
}

TEST_F(TiersTest, NothingIsWrittenTwice) {
  const auto engine = Make();
  RunOne(*engine, request_);
  RunOne(*engine, request_);
  engine->FlushTiers();
  RunOne(*engine, request_);
  engine->FlushTiers();
  std::vector<std::pair<Digest, int>> stored;
  for (const BlockKey& key : store_->stored()) stored.emplace_back(key.id, key.group);
  std::ranges::sort(stored);
  EXPECT_TRUE(std::ranges::adjacent_find(stored) == stored.end());
}

TEST_F(TiersTest, OtherSaltsFindNothing) {
  Fill(request_);
  Request other = request_;
  other.cache_salt = "another";
  const auto engine = Make();
  const RequestResult result = RunOne(*engine, other);
  EXPECT_EQ(result.cached_tokens, 0);
  EXPECT_EQ(result.miss.reason, MissReason::kNeverSeen);
  ExpectSame(result, Cold(request_));
}

TEST_F(TiersTest, EveryFaultIsAMissThatTellsItsName) {
  Fill(request_);
  const RequestResult cold = Cold(request_);
  for (int code = static_cast<int>(RecordFault::kTruncated); code < kNumRecordFaults; ++code) {
    const auto fault = static_cast<RecordFault>(code);
    SCOPED_TRACE(std::string(NameOf(fault)));
    store_->SetFaults({.nth = 1, .fault = fault});
    const auto engine = Make();
    const RequestResult result = RunOne(*engine, request_);
    EXPECT_EQ(result.cached_tokens, 0);
    if (fault != RecordFault::kDown) {
      EXPECT_EQ(result.miss.reason, MissReason::kTierFault);
      EXPECT_EQ(result.miss.detail, NameOf(fault));
    }
    ExpectSame(result, cold);
    engine->CheckInvariants();
  }
}

TEST_F(TiersTest, AFaultInTheMiddleCostsItsBlocksAndNoMore) {
  Fill(request_);
  store_->SetFaults({.nth = 3, .fault = RecordFault::kChecksum});
  const auto engine = Make();
  const RequestResult result = RunOne(*engine, request_);
  EXPECT_GE(result.cached_tokens, 2 * kBlockSlots);
  ExpectSame(result, Cold(request_));
}

TEST_F(TiersTest, FlippedBitsAreNeverServed) {
  Fill(request_);
  store_->FlipBits(7);
  const auto engine = Make();
  const RequestResult result = RunOne(*engine, request_);
  EXPECT_EQ(result.cached_tokens, 0);
  EXPECT_EQ(result.miss.reason, MissReason::kTierFault);
  ExpectSame(result, Cold(request_));
}

TEST_F(TiersTest, ATierThatHangsIsWaitedForNoLongerThanAllowed) {
  Fill(request_);
  store_->SetFaults({.loads_hang = true});
  const auto engine = Make({.max_wait_ms = 30});
  const RequestResult result = RunBeside(*engine, request_);
  EXPECT_EQ(result.cached_tokens, 0);
  EXPECT_GT(result.tier_wait_ms, 0);
  ExpectSame(result, Cold(request_));
  store_->SetFaults({});
  while (engine->RunIdle()) {
  }
  engine->CheckInvariants();
  EXPECT_EQ(engine->cache().usage().used_blocks, 0);
}

TEST_F(TiersTest, ALoadHoldsNobodyElseUp) {
  Fill(request_);
  store_->SetFaults({.loads_hang = true});
  const auto engine = Make({.max_wait_ms = 100'000});
  bool has_ended = false;
  ASSERT_TRUE(
      engine->Submit(request_, {.on_finish = [&](RequestResult) { has_ended = true; }}).ok());
  for (int i = 0; i < 3; ++i) engine->Step();
  const RequestResult other = RunBeside(*engine, Sampled(Ascending(20, 5), 4));
  EXPECT_FALSE(has_ended);
  EXPECT_EQ(other.choices[0].tokens.size(), 4u);
  store_->SetFaults({});
  engine->RunUntilIdle();
  EXPECT_TRUE(has_ended);
}

TEST_F(TiersTest, BlocksOfAnAbortedLoadComeBack) {
  Fill(request_);
  store_->SetFaults({.loads_hang = true});
  const auto engine = Make({.max_wait_ms = 100'000});
  const auto id = engine->Submit(request_, {});
  ASSERT_TRUE(id.ok());
  for (int i = 0; i < 3; ++i) engine->Step();
  engine->Abort(*id);
  engine->CheckInvariants();
  EXPECT_GT(engine->cache().usage().used_blocks, 0);  // in the tier's hands
  store_->SetFaults({});
  while (engine->RunIdle()) {
  }
  EXPECT_EQ(engine->cache().usage().used_blocks, 0);
}

TEST_F(TiersTest, TwoRequestsForOnePrefixLoadItOnce) {
  Fill(request_);
  const auto engine = Make();
  int num_ended = 0;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(engine
                    ->Submit(request_, {.on_finish =
                                            [&](RequestResult result) {
                                              ++num_ended;
                                              EXPECT_GE(result.cached_tokens, kWhole);
                                            }})
                    .ok());
  }
  engine->RunUntilIdle();
  EXPECT_EQ(num_ended, 2);
  EXPECT_EQ(engine->TierStatuses()[0].counters.blocks_loaded, kWhole / kBlockSlots);
}

TEST_F(TiersTest, ASlowTierIsNotLoadedFrom) {
  Fill(request_);
  // A byte a second.
  const auto throttle =
      std::make_shared<testing::Throttle>(TierSpeed{.latency_ms = 1, .bytes_per_ms = .001});
  const auto engine = Make({.throttle = throttle});
  const RequestResult result = RunOne(*engine, request_);
  EXPECT_EQ(result.cached_tokens, 0);
  EXPECT_EQ(result.miss.reason, MissReason::kCheaperToCompute);
  EXPECT_EQ(result.miss.tier, "disk");
  EXPECT_GT(result.miss.load_ms, result.miss.compute_ms);
  EXPECT_EQ(engine->counters().load_choices[static_cast<size_t>(LoadChoice::kRecompute)], 1);
  EXPECT_LT(result.tier_wait_ms, 1000);
  ExpectSame(result, Cold(request_));
}

TEST_F(TiersTest, ATierThatIsDownIsNamed) {
  Fill(request_);
  store_->SetFaults({.is_down = true});
  const auto engine = Make();
  const RequestResult result = RunOne(*engine, request_);
  EXPECT_EQ(result.cached_tokens, 0);
  EXPECT_EQ(result.miss.reason, MissReason::kTierDown);
  ExpectSame(result, Cold(request_));
}

TEST_F(TiersTest, AnotherModelsBlocksAreNamedAndNotRead) {
  Fill(request_, {.kv_type = KvType::kF32});
  const auto engine = Make();
  const RequestResult result = RunOne(*engine, request_);
  EXPECT_EQ(result.cached_tokens, 0);
  EXPECT_EQ(result.miss.reason, MissReason::kOtherModel);
  EXPECT_EQ(result.miss.detail, "kv_type or layout");
  ExpectSame(result, Cold(request_));
}

TEST_F(TiersTest, WhatIsPreemptedIsSpilledAndFoundAgain) {
  const auto engine = Make({.num_blocks = 17});
  std::vector<RequestResult> results(3);
  std::vector<Request> requests;
  for (int i = 0; i < 3; ++i) requests.push_back(Sampled(Ascending(80, i), 60));
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(engine
                    ->Submit(requests[i],
                             {.on_finish = [&, i](RequestResult r) { results[i] = std::move(r); }})
                    .ok());
  }
  engine->RunUntilIdle();
  EXPECT_GT(engine->batch().counters().preemptions, 0);
  EXPECT_GT(engine->batch().counters().blocks_spilled, 0);
  for (size_t i = 0; i < requests.size(); ++i) ExpectSame(results[i], Cold(requests[i]));
}

TEST_F(TiersTest, WhatAnEmbeddingComputesIsStoredAndItReadsNothing) {
  Request embedding{.prompt = Ascending(kPrompt), .embedding = Pooling::kMean};
  Fill(embedding);
  const auto engine = Make();
  EXPECT_EQ(RunOne(*engine, embedding).cached_tokens, 0);
  EXPECT_EQ(RunOne(*engine, Sampled(Ascending(kPrompt, 1), 2)).cached_tokens, 0);
  EXPECT_EQ(RunOne(*Make(), request_).cached_by_tier.disk, kWhole);
}

}  // namespace
}  // namespace quire
