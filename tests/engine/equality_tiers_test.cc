// The promise with tiers: wherever a prefix comes from - computed, memory, a disk after a restart,
// somewhere else, or some of each, with faults on the way - every token and log-probability is what
// the request would have got alone on a cold engine.
//
// Each load runs three times: cold; after a restart, from what the tiers hold; and after a restart
// with other kernels.
//
//   QUIRE_EQUALITY_LOADS=200   how many random loads
//   QUIRE_EQUALITY_SEED=17     that load alone
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "engine/engine_fixture.h"
#include "engine/equality_run.h"
#include "kv/tiers/disk/disk_tier.h"
#include "kv/tiers/redis/redis_tier.h"
#include "support/memory_tier.h"
#include "support/redis_server.h"
#include "support/rigs.h"
#include "support/sanitizers.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

using testing::Load;
using testing::LoadAnswer;
using testing::LoadEvents;
using testing::LoadModel;
using testing::MemoryStore;
using testing::MemoryTierFaults;

constexpr int kTinyTokens = 300;
constexpr int kUsualLoads = testing::kHasThreadSanitizer ? 3 : testing::kHasSanitizer ? 8 : 24;
// Of so many loads, each kind of event is among what happens.
constexpr int kTellingLoads = 24;

int FromEnvironment(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

// The tiers of one load: what outlives an engine.
class Tiers {
 public:
  // redis: null where there is no such program.
  Tiers(uint64_t seed, const testing::RedisServer* redis) : seed_(seed), redis_(redis) {}

  // The disk is a real one; beside it or alone stands something remote, a real server every other
  // time.
  TierOptions Options() {
    TierOptions options{.max_wait_ms = seed_ % 5 == 0 ? 0.0 : 250.0, .idle_ms = 0};
    if (seed_ % 4 != 3) options.factories.push_back(Disk());
    if (seed_ % 4 >= 2) options.factories.push_back(Remote());
    if (seed_ % 7 == 3) options.set.staging_bytes = 8192;
    return options;
  }

  bool has_redis() const { return redis_ != nullptr && seed_ % 8 >= 4; }

  // In the last run, now and then: loads that fail, and bits that have flipped.
  void MakeFaults() {
    if (seed_ % 3 == 0) remote_->SetFaults({.nth = 3, .fault = RecordFault::kIo});
    if (seed_ % 3 == 1) remote_->SetFaults({.nth = 4, .flips = true});
    if (seed_ % 3 == 2) remote_->SetFaults({.nth = 5, .fault = RecordFault::kForged, .load_ms = 1});
  }

 private:
  TierFactory Disk() {
    return [this](std::shared_ptr<const RecordCodec> codec) {
      return OpenDiskTier(codec, {.directory = directory_.path() / "kv",
                                  .max_bytes = uint64_t{64} << 20,
                                  .min_free_bytes = 0});
    };
  }
  TierFactory Remote() {
    if (has_redis()) {
      return [this](std::shared_ptr<const RecordCodec> codec) {
        return OpenRedisTier(codec, {.url = redis_->url(), .trust_remote = true});
      };
    }
    return [this](std::shared_ptr<const RecordCodec> codec) -> Result<std::unique_ptr<Tier>> {
      return testing::OpenMemoryTier(codec, remote_,
                                     {.kind = TierKind::kRemote, .knows_all = false});
    };
  }

  uint64_t seed_;
  const testing::RedisServer* redis_;
  ScratchDirectory directory_;
  std::shared_ptr<MemoryStore> remote_ = std::make_shared<MemoryStore>();
};

class EqualityTiersTest : public ::testing::Test {
 protected:
  EqualityTiersTest() {
    for (const std::string& name : testing::TinyModels()) {
      models_.push_back(
          {.name = name, .path = testing::TinyModel(name), .vocab_size = kTinyTokens});
    }
  }

  std::vector<LoadModel> models_;
  std::unique_ptr<testing::RedisServer> redis_ =
      testing::RedisServer::IsThere() ? std::make_unique<testing::RedisServer>() : nullptr;
};

TEST_F(EqualityTiersTest, EveryAnswerIsWhatItsRequestGetsAloneWhereverItsPrefixComesFrom) {
  const int only = FromEnvironment("QUIRE_EQUALITY_SEED", -1);
  const int num_loads = only >= 0 ? 1 : FromEnvironment("QUIRE_EQUALITY_LOADS", kUsualLoads);
  LoadEvents cold;
  LoadEvents warm;
  int64_t redis_tokens = 0;  // of the warm ones' remote tokens: from a real server
  for (int i = 0; i < num_loads; ++i) {
    const auto seed = static_cast<uint64_t>(only >= 0 ? only : i);
    Load load = testing::MakeLoad(seed, models_[seed % models_.size()],
                                  {.num_requests = 10, .with_reference_kernels = false});
    Tiers tiers(seed, redis_.get());
    if (redis_ != nullptr) redis_->Ask({"FLUSHALL"});
    for (int run = 0; run < 3; ++run) {
      load.options.tiers = tiers.Options();
      if (run == 2) {
        load.options.runner.kernels = load.options.runner.kernels == "avx2" ? "" : "avx2";
        tiers.MakeFaults();
      }
      SCOPED_TRACE(testing::Describe(load) + fmt::format(", run {}", run));
      const int64_t remote_tokens = warm.remote_tokens;
      const std::vector<LoadAnswer> answers = testing::RunLoad(load, run == 0 ? &cold : &warm);
      if (tiers.has_redis()) redis_tokens += warm.remote_tokens - remote_tokens;
      ASSERT_EQ(answers.size(), load.requests.size());
      testing::ExpectAnswersAsAlone(load, answers);
      ASSERT_FALSE(HasFailure());
    }
  }
  fmt::print("{} tokens from a real Redis{}\n", redis_tokens,
             redis_ == nullptr ? ", which is not on the PATH" : "");
  fmt::print("{} loads, cold: {}\n{} loads, restarted twice: {}\n", num_loads,
             testing::ToString(cold), num_loads, testing::ToString(warm));
  if (num_loads < kTellingLoads) return;
  EXPECT_GT(cold.spilled_blocks, 0);
  EXPECT_GT(warm.disk_tokens, 0);
  EXPECT_GT(warm.remote_tokens, redis_tokens);
  EXPECT_EQ(redis_tokens > 0, redis_ != nullptr);
  EXPECT_GT(cold.restored_tokens + warm.restored_tokens, 0);
  EXPECT_GT(cold.takeovers + warm.takeovers, 0);
  EXPECT_GT(warm.faults, 0);
  EXPECT_GT(warm.preemptions, 0);
  EXPECT_GT(warm.window_releases, 0);
  EXPECT_GT(warm.drafts_accepted, 0);
  EXPECT_GT(warm.drafts_refused, 0);
}

}  // namespace
}  // namespace quire
