// What holds whatever is asked for, in whatever state the tiers are. Tiers that hang are released
// by the thread that asks: were one of its verbs to wait for a tier, the test would not end.

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "kv/tiers/tier_set_fixture.h"

namespace quire::testing {
namespace {

constexpr int kNumBlocks = 60;
constexpr int kNumTiers = 2;

class TierSetRandom : public TierSetTest {
 protected:
  struct LoadUnderWay {
    int tier = 0;
    std::vector<BlockLoad> loads{};
    std::vector<bool> told{};
    std::unique_ptr<std::vector<std::byte>> memory{};
  };

  int Random(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }

  TierDeadline RandomDeadline() { return Random(3) == 0 ? In(Random(3)) : Never(); }

  MemoryTierFaults RandomFaults() {
    MemoryTierFaults faults{};
    if (Random(3) == 0) return faults;
    faults.nth = Random(4);
    faults.fault = static_cast<RecordFault>(Random(kNumRecordFaults));
    faults.flips = Random(4) == 0;
    faults.find_fails = Random(4) == 0;
    faults.is_down = Random(6) == 0;
    faults.store = static_cast<StoreOutcome>(Random(6));
    faults.find_ms = Random(4) == 0 ? .3 : 0;
    faults.load_ms = Random(4) == 0 ? .1 : 0;
    faults.finds_hang = Random(4) == 0;
    faults.loads_hang = Random(4) == 0;
    faults.stores_hang = Random(4) == 0;
    faults.hang_passes_deadline = Random(2) == 0;
    return faults;
  }

  void Load() {
    LoadUnderWay load{.tier = Random(kNumTiers)};
    const int num_blocks = Random(40);
    load.memory =
        std::make_unique<std::vector<std::byte>>(static_cast<size_t>(num_blocks) * kGroupBytes[0]);
    for (int i = 0; i < num_blocks; ++i) {
      const int group = Random(2);
      load.loads.push_back(
          {.block = BlockOf(*codec_, Random(kNumBlocks), group),
           .payload = std::span(*load.memory)
                          .subspan(static_cast<size_t>(i) * kGroupBytes[0], kGroupBytes[group])});
    }
    load.told.resize(load.loads.size());
    const TierTicket ticket = set_->Load(load.tier, load.loads, RandomDeadline());
    last_ticket_ = ticket;
    if (num_blocks > 0) loads_.emplace(ticket, std::move(load));
  }

  void Cancel() {
    const TierTicket ticket = Random(static_cast<int>(last_ticket_) + 2);
    set_->Cancel(ticket);
    finds_.erase(ticket);
  }

  void Take() {
    for (const TierEvent& event : set_->TakeEvents()) {
      if (event.kind == TierEvent::Kind::kFound) {
        TakeFound(event);
      } else {
        TakeLoaded(event);
      }
    }
  }

  void TakeFound(const TierEvent& event) {
    const auto it = finds_.find(event.ticket);
    ASSERT_NE(it, finds_.end());
    ASSERT_EQ(event.found.size(), it->second.num_keys);
    ASSERT_TRUE(it->second.tiers.insert(event.tier).second);
    if (event.fault != RecordFault::kNone) {
      EXPECT_EQ(std::ranges::count(event.found, true), 0);
    }
    if (it->second.tiers.size() == kNumTiers) finds_.erase(it);
  }

  void TakeLoaded(const TierEvent& event) {
    const auto it = loads_.find(event.ticket);
    ASSERT_NE(it, loads_.end());
    LoadUnderWay& load = it->second;
    ASSERT_LT(event.idx, load.told.size());
    ASSERT_EQ(event.tier, load.tier);
    ASSERT_FALSE(load.told[event.idx]);
    load.told[event.idx] = true;
    const BlockLoad& block = load.loads[event.idx];
    if (event.fault == RecordFault::kNone) {
      ++num_loaded_;
      const std::vector<std::byte> payload = PayloadOf(block.block.tokens[0], block.block.group);
      ASSERT_EQ(std::memcmp(payload.data(), block.payload.data(), payload.size()), 0);
    }
    if (std::ranges::count(load.told, false) == 0) loads_.erase(it);
  }

  void Step() {
    switch (Random(8)) {
      case 0: {
        const int first = Random(kNumBlocks);
        std::vector<BlockKey> keys = Keys(first, first + Random(20));
        const size_t num_keys = keys.size();
        last_ticket_ = set_->Find(std::move(keys), RandomDeadline());
        finds_.emplace(last_ticket_, FindUnderWay{.num_keys = num_keys});
        break;
      }
      case 1:
        Load();
        break;
      case 2:
        Cancel();
        break;
      case 3:
        stores_[static_cast<size_t>(Random(kNumTiers))]->SetFaults(RandomFaults());
        break;
      case 4:
        set_->WaitForEvents(std::chrono::microseconds(Random(200)));
        Take();
        break;
      default:
        (void)Offer(Random(kNumBlocks), Random(2));
        (void)set_->HasRoom();
    }
  }

  struct FindUnderWay {
    size_t num_keys = 0;
    std::set<int> tiers{};  // that have answered
  };

  std::mt19937_64 random_;
  TierTicket last_ticket_ = 0;
  std::map<TierTicket, LoadUnderWay> loads_;
  std::map<TierTicket, FindUnderWay> finds_;
  int num_loaded_ = 0;
};

TEST_F(TierSetRandom, EveryBlockComesBackOnceAndNoVerbWaits) {
  // A busy machine brings fewer blocks back meanwhile: it gets more turns.
  for (uint64_t seed = 1; seed <= 12 || (num_loaded_ <= 100 && seed <= 60); ++seed) {
    SCOPED_TRACE(seed);
    random_.seed(seed);
    stores_.clear();
    AddTier();
    AddTier(kRemote);
    Open({.staging_bytes = 12 * kGroupBytes[0], .read_threads = 1 + Random(3)});
    for (int step = 0; step < 300; ++step) {
      Step();
      if (HasFatalFailure()) return;
    }
    for (const auto& store : stores_) store->SetFaults({});
    while (!loads_.empty() || !finds_.empty()) {
      ASSERT_TRUE(set_->WaitForEvents(std::chrono::seconds(60)));
      Take();
      if (HasFatalFailure()) return;
    }
    EXPECT_TRUE(set_->Flush(Never()).ok());
    set_.reset();
  }
  EXPECT_GT(num_loaded_, 100);
}

}  // namespace
}  // namespace quire::testing
