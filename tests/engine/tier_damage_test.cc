// The damage suite: random faults of real stores - a disk, a Redis server, both - under engines.
// After each, every answer is what a cold engine says, nobody waits for a tier longer than allowed,
// what is wrong is counted and named, and the store works again.
//
//   QUIRE_DAMAGE_FAULTS=10000   how many cases
//   QUIRE_DAMAGE_SEED=17        that case alone
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "engine/request_runs.h"
#include "engine/tier_damage_kinds.h"
#include "engine/tier_damage_tally.h"
#include "support/sanitizers.h"

namespace quire {
namespace {

using testing::DamageDisk;
using testing::DamageKind;
using testing::DamageMoment;
using testing::DamageOutcome;
using testing::DamageRandom;
using testing::DamageRemote;
using testing::DamageScene;
using testing::DamageSeal;
using testing::DamageStore;
using testing::DamageTally;

constexpr int kUsualCases = testing::kHasThreadSanitizer ? 80 : testing::kHasSanitizer ? 100 : 200;
// A request waits 250 ms at most (engine/tier_loads_test.cc holds that exactly, by a clock of its
// own). Here the step under way and a machine with other work come on top.
constexpr double kMaxWaitMs = 250;
constexpr double kWaitSlackMs = testing::kHasSanitizer ? 2000 : 500;
// In each so many rounds through all kinds the slow ones are among them.
constexpr uint64_t kRoundsOfSlow = 8;
// A record that is wrong is found out when it is wanted, so that the first starts after a fault may
// miss, and further ones where they find one more.
constexpr int kFreeStarts = 2;
constexpr int kMostStarts = 8;
// A machine that is busy with other things lets tiers wait, and requests not for them.
constexpr double kLateMs = 50;
// The first failing cases tell enough.
constexpr int kMostFailed = 8;
constexpr auto kDrainTime = std::chrono::seconds(20);

// By a clock that stands still for the set of tiers; what does not fail has the time that it takes.
constexpr DamageStore::Opening kPatient = {
    .loads_always = true, .flush_ms = 60'000, .store_ms = 60'000};
constexpr DamageStore::Opening kUsual = {.flush_ms = 400, .store_ms = 200};

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoll(value);
}

int NumFailures() {
  return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
}

int64_t NumFaults(const TierStatus& status) {
  int64_t sum = 0;
  for (size_t i = static_cast<size_t>(RecordFault::kTruncated); i < kNumRecordFaults; ++i) {
    sum += status.counters.faults[i];
  }
  return sum;
}

int64_t NumFaults(const std::vector<TierStatus>& statuses, std::string_view name) {
  int64_t sum = 0;
  for (const TierStatus& status : statuses) {
    for (int code = 0; code < kNumRecordFaults; ++code) {
      if (NameOf(static_cast<RecordFault>(code)) == name) {
        sum += status.counters.faults[static_cast<size_t>(code)];
      }
    }
  }
  return sum;
}

// What does not change from case to case.
struct Grounds {
  Grounds() {
    for (const DamageKind& kind : testing::DiskDamageKinds()) kinds.push_back(&kind);
    num_disk_kinds = kinds.size();
    if (!DamageRemote::IsThere()) return;
    remote = std::make_unique<DamageRemote>();
    for (const DamageKind& kind : testing::RemoteDamageKinds()) kinds.push_back(&kind);
  }

  const DamageStore& Store(size_t model, DamageSeal seal) {
    auto& store = stores[{model, seal}];
    if (store == nullptr) {
      store = std::make_unique<DamageStore>(model == 0 ? "tiny-llama" : "tiny-gemma3", seal);
    }
    return *store;
  }
  // Each in turn; the slow ones in a round now and then.
  size_t KindOf(uint64_t seed, DamageRandom& random) const {
    size_t kind = seed % kinds.size();
    if (seed / kinds.size() % kRoundsOfSlow == 0) return kind;
    while (kinds[kind]->is_slow) kind = random.Below(kinds.size());
    return kind;
  }

  std::vector<const DamageKind*> kinds;  // of the disk first
  size_t num_disk_kinds = 0;
  DamageDisk disk;
  std::unique_ptr<DamageRemote> remote;  // null without a redis-server
  std::map<std::pair<size_t, DamageSeal>, std::unique_ptr<DamageStore>> stores;
  std::map<std::string_view, DamageTally> tallies;
};

// One store, damaged once.
class DamageCase {
 public:
  DamageCase(Grounds& grounds, uint64_t seed)
      : grounds_(grounds),
        random_(seed),
        kind_idx_(grounds.KindOf(seed, random_)),
        kind_(*grounds.kinds[kind_idx_]),
        harms_disk_(kind_idx_ < grounds.num_disk_kinds),
        store_(DrawStore()),
        harms_all_(random_.OneIn(2)),
        loads_always_(!kind_.is_slow && !random_.OneIn(4)),
        first_(random_.Below(store_.prompts().size())),
        tally_(grounds.tallies[kind_.name]) {
    const bool has_both = grounds.remote != nullptr && random_.OneIn(4);
    uses_disk_ = harms_disk_ || has_both;
    uses_remote_ = !harms_disk_ || has_both;
    disk_is_first_ = !random_.OneIn(4);
    other_is_empty_ = kind_.needs_empty || random_.OneIn(2);
  }

  std::string Describe() const {
    return fmt::format(
        "{}, {} of {}, key {}, tiers:{}{}{}, loads {}", kind_.name, harms_all_ ? "all" : "some",
        store_.name(), store_.has_key(), uses_disk_ ? " disk" : "", uses_remote_ ? " redis" : "",
        uses_disk_ && uses_remote_ ? disk_is_first_ ? ", disk first" : ", redis first" : "",
        loads_always_ ? "always" : "by speed");
  }

  void Run() {
    ++tally_.num_cases;
    if (uses_disk_) {
      grounds_.disk.Lay(store_, harms_disk_ ? kind_.needs_empty : other_is_empty_);
    }
    if (uses_remote_) {
      grounds_.remote->Lay(store_, harms_disk_ ? other_is_empty_ : kind_.needs_empty);
    }
    if (kind_.moment == DamageMoment::kBefore) Harm();
    UseDamaged();
    Heal();
    MustWork();
  }

 private:
  const DamageStore& DrawStore() {
    const size_t model = random_.Below(2);
    const size_t seal = kind_.needs_key ? 1 + random_.Below(2) : random_.Below(3);
    return grounds_.Store(model, static_cast<DamageSeal>(seal));
  }

  void Harm() {
    kind_.harm({.store = store_,
                .disk = grounds_.disk,
                .remote = grounds_.remote.get(),
                .random = random_,
                .harms_all = harms_all_});
  }
  void Heal() {
    if (uses_disk_) grounds_.disk.Heal();
    if (uses_remote_) grounds_.remote->Heal();
  }

  Result<std::unique_ptr<Engine>> Open(const DamageStore::Opening& opening) {
    std::vector<TierFactory> tiers;
    if (uses_disk_) tiers.push_back(grounds_.disk.Factory());
    if (uses_remote_) tiers.push_back(grounds_.remote->Factory(store_.has_key()));
    if (tiers.size() == 2 && !disk_is_first_) std::swap(tiers[0], tiers[1]);
    return store_.Open(std::move(tiers), opening);
  }
  size_t HarmedTier() const {
    if (!uses_disk_ || !uses_remote_) return 0;
    return harms_disk_ == disk_is_first_ ? 0 : 1;
  }

  // Prompts at once; each answer is the cold one.
  std::vector<RequestResult> Ask(Engine& engine, const std::vector<size_t>& prompts) {
    std::vector<std::optional<RequestResult>> ended(prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto id = engine.Submit(
          store_.prompts()[prompts[i]].request,
          {.on_finish = [&ended, i](RequestResult result) { ended[i] = std::move(result); }});
      EXPECT_TRUE(id.ok());
    }
    while (engine.Step()) engine.CheckInvariants();
    std::vector<RequestResult> results;
    for (size_t i = 0; i < prompts.size(); ++i) {
      if (!ended[i].has_value()) {
        ADD_FAILURE() << "prompt " << prompts[i] << " has no answer";
        continue;
      }
      EXPECT_TRUE(ended[i]->status.ok()) << ended[i]->status.error().message;
      testing::ExpectSameChoices(*ended[i], store_.prompts()[prompts[i]].cold);
      EXPECT_LE(ended[i]->tier_wait_ms, kMaxWaitMs + kWaitSlackMs);
      results.push_back(std::move(*ended[i]));
    }
    return results;
  }

  // What tiers still have in their hands comes back.
  static void Drain(Engine& engine) {
    const auto end = std::chrono::steady_clock::now() + kDrainTime;
    while (engine.cache().usage().used_blocks > 0 && std::chrono::steady_clock::now() < end) {
      (void)engine.RunIdle();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    engine.CheckInvariants();
    EXPECT_EQ(engine.cache().usage().used_blocks, 0);
  }

  void UseDamaged() {
    auto opened = Open(loads_always_ ? kPatient : kUsual);
    if (!opened.ok()) {
      ++tally_.num_refused;
      EXPECT_TRUE(kind_.may_refuse) << opened.error().message;
      EXPECT_FALSE(opened.error().message.empty());
      return;
    }
    const std::unique_ptr<Engine> engine = std::move(*opened);
    if (kind_.moment == DamageMoment::kOpen) Harm();
    std::vector<size_t> together = {first_};
    for (size_t more = random_.Below(3); more > 0; --more) {
      together.push_back(random_.Below(store_.prompts().size()));
    }
    const size_t delay_us = random_.Below(3000);
    const bool goes_on = random_.OneIn(4);
    std::thread harming;
    if (kind_.moment == DamageMoment::kBusy) {
      harming = std::thread([this, delay_us] {
        std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
        Harm();
      });
    }
    std::vector<RequestResult> results = Ask(*engine, {first_});
    for (RequestResult& result : Ask(*engine, together)) results.push_back(std::move(result));
    if (harming.joinable()) harming.join();
    (void)engine->FlushTiers();
    Drain(*engine);
    Judge(results, engine->TierStatuses());
    if (!goes_on) return;
    Heal();
    Ask(*engine, together);
    Drain(*engine);
  }

  void Judge(const std::vector<RequestResult>& results, const std::vector<TierStatus>& statuses) {
    tally_.Add(statuses);
    for (const RequestResult& result : results) {
      tally_.Add(result);
      const PrefixMiss& miss = result.miss;
      // What somebody has taken away is missed, and nobody's fault.
      if (miss.reason == MissReason::kTierFault && miss.detail != NameOf(RecordFault::kAbsent)) {
        // By a clock that stands still nothing is late: an answer that never came has failed.
        const int64_t num_late =
            loads_always_ ? NumFaults(statuses, NameOf(RecordFault::kTimeout)) : 0;
        EXPECT_GT(NumFaults(statuses, miss.detail) + num_late, 0) << miss.detail;
      }
      if (miss.reason == MissReason::kTierDown) {
        EXPECT_FALSE(miss.detail.empty());
        EXPECT_FALSE(miss.tier.empty());
      }
    }
    for (const TierStatus& status : statuses) {
      if (status.state.is_up) continue;
      EXPECT_FALSE(status.state.reason.empty());
      EXPECT_GT(status.counters.times_down, 0);
    }
    const bool has_other = uses_disk_ && uses_remote_;
    const bool is_asked = !has_other || other_is_empty_ || (harms_disk_ && disk_is_first_);
    if (!is_asked || results.empty()) return;
    // A tier whose speed is known may be passed over.
    const bool is_certain = loads_always_ || kind_.is_slow;
    if (kind_.outcome == DamageOutcome::kNoticed && harms_all_ && is_certain) {
      EXPECT_GT(NumFaults(statuses[HarmedTier()]), 0) << NameOf(results[0].miss.reason);
    }
    // A machine that is busy with other things may be late.
    const bool was_late = NumFaults(statuses, NameOf(RecordFault::kTimeout)) > 0;
    if (kind_.outcome == DamageOutcome::kHarmless && loads_always_ && !has_other && !was_late) {
      EXPECT_EQ(results[0].cached_tokens, store_.prompts()[first_].whole_tokens)
          << NameOf(results[0].miss.reason) << " " << results[0].miss.detail;
    }
  }

  // Without further damage: what is missing is stored, and found after a restart.
  void MustWork() {
    std::string story;
    for (int starts = 0; starts < kMostStarts; ++starts) {
      auto opened = Open(kPatient);
      ASSERT_TRUE(opened.ok()) << opened.error().message;
      const std::unique_ptr<Engine> engine = std::move(*opened);
      const auto first = Ask(*engine, {first_});
      ASSERT_FALSE(first.empty());
      if (first[0].cached_tokens >= store_.prompts()[first_].whole_tokens) return;
      for (size_t i = 0; i < store_.prompts().size(); ++i) Ask(*engine, {i});
      EXPECT_EQ(engine->FlushTiers(), 0);
      Drain(*engine);
      DamageTally tally;
      tally.Add(engine->TierStatuses());
      story += fmt::format("\nfound {} tokens, {} {}; faults:{}", first[0].cached_tokens,
                           NameOf(first[0].miss.reason), first[0].miss.detail, FaultsOf(tally));
      const bool was_late = first[0].tier_wait_ms > kLateMs;
      if (starts >= kFreeStarts && tally.num_faults() == 0 && !was_late) break;
    }
    ADD_FAILURE() << "the store does not hold what it was given:" << story;
  }

  Grounds& grounds_;
  DamageRandom random_;
  const size_t kind_idx_;
  const DamageKind& kind_;
  const bool harms_disk_;
  const DamageStore& store_;
  const bool harms_all_;
  const bool loads_always_;
  const size_t first_;  // prompt
  DamageTally& tally_;
  bool uses_disk_ = false;
  bool uses_remote_ = false;
  bool disk_is_first_ = true;
  bool other_is_empty_ = false;
};

TEST(TierDamage, EveryAnswerIsRightAndTheStoreWorksAgain) {
  const int64_t only = FromEnvironment("QUIRE_DAMAGE_SEED", -1);
  const int64_t num_cases = only >= 0 ? 1 : FromEnvironment("QUIRE_DAMAGE_FAULTS", kUsualCases);
  Grounds grounds;
  if (grounds.remote == nullptr) {
    fmt::print("THERE IS NO redis-server: the disk alone is harmed\n");
  }
  int num_failed = 0;
  for (int64_t i = 0; i < num_cases && num_failed < kMostFailed; ++i) {
    const auto seed = static_cast<uint64_t>(only >= 0 ? only : i);
    DamageCase one(grounds, seed);
    SCOPED_TRACE(fmt::format("QUIRE_DAMAGE_SEED={}: {}", seed, one.Describe()));
    const int before = NumFailures();
    one.Run();
    num_failed += NumFailures() > before ? 1 : 0;
  }
  fmt::print("{}", TableOf(grounds.tallies));
  if (HasFailure() || num_cases < static_cast<int64_t>(grounds.kinds.size())) return;
  for (const DamageKind* kind : grounds.kinds) {
    const DamageTally& tally = grounds.tallies[kind->name];
    EXPECT_GT(tally.num_cases, 0) << kind->name;
    const bool is_often = tally.num_cases >= 10;
    if (is_often && kind->outcome == DamageOutcome::kNoticed) {
      EXPECT_GT(tally.num_faults(), 0) << kind->name;
    }
  }
}

}  // namespace
}  // namespace quire
