#include <algorithm>
#include <atomic>
#include <thread>

#include "kv/tiers/tier_readers.h"
#include "kv/tiers/tier_set_fixture.h"

namespace quire::testing {
namespace {

using std::chrono::microseconds;

constexpr size_t kReaders = 2;  // threads that read, a tier
constexpr size_t kSlice = 4;    // blocks that such a thread takes of a short load

class TierSetRead : public TierSetTest {};

TEST_F(TierSetRead, AnswersAFindAtOnceWhereTheTierKnowsAll) {
  AddTier();
  Open();
  Fill(2);
  const TierTicket ticket = set_->Find(Keys(1, 4), Never());
  const auto events = set_->TakeEvents();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].ticket, ticket);
  EXPECT_EQ(events[0].found, (std::vector<bool>{true, false, false}));
  EXPECT_EQ(stores_[0]->num_finds(), 0);
  EXPECT_EQ(set_->status()[0].counters.names_asked, 3);
  EXPECT_EQ(set_->status()[0].counters.names_found, 1);
}

TEST_F(TierSetRead, AsksEveryTierOnceForAllKeys) {
  AddTier();
  AddTier(kRemote);
  Open();
  Fill(3);
  const TierTicket ticket = set_->Find(Keys(2, 5), Never());
  const auto events = Await(2);
  for (int tier : {0, 1}) {
    EXPECT_EQ(events[static_cast<size_t>(tier)].tier, tier);
    EXPECT_EQ(events[static_cast<size_t>(tier)].ticket, ticket);
    EXPECT_EQ(events[static_cast<size_t>(tier)].kind, TierEvent::Kind::kFound);
    EXPECT_EQ(events[static_cast<size_t>(tier)].found, (std::vector<bool>{true, false, false}));
  }
  EXPECT_EQ(stores_[1]->num_finds(), 1);
}

TEST_F(TierSetRead, AnswersForATierThatIsDownWithoutAskingIt) {
  AddTier();
  AddTier(kRemote);
  Open();
  Fill(3);
  for (const auto& store : stores_) store->SetFaults({.is_down = true});
  set_->Find(Keys(0, 3), Never());
  auto events = set_->TakeEvents();
  ASSERT_EQ(events.size(), 2u);
  for (const TierEvent& event : events) {
    EXPECT_EQ(event.fault, RecordFault::kDown);
    EXPECT_EQ(event.found, std::vector<bool>(3, false));
  }
  set_->Load(1, Loads(0, 3), Never());
  events = set_->TakeEvents();
  EXPECT_EQ(NumWith(events, RecordFault::kDown), 3u);
  EXPECT_EQ(stores_[1]->num_loads(), 0);
  EXPECT_EQ(NumFaults(1, RecordFault::kDown), 4);  // a question and three blocks
}

TEST_F(TierSetRead, FindsNothingWhereTheTierFailsAndSaysWhy) {
  AddTier(kRemote);
  Open();
  Fill(2);
  stores_[0]->SetFaults({.find_fails = true});
  set_->Find(Keys(0, 2), Never());
  auto events = Await(1);
  EXPECT_EQ(events[0].fault, RecordFault::kIo);
  EXPECT_EQ(events[0].found, std::vector<bool>(2, false));
  stores_[0]->SetFaults({.finds_hang = true});
  set_->Find(Keys(0, 2), In(5));
  events = Await(1);
  EXPECT_EQ(events[0].fault, RecordFault::kTimeout);
}

TEST_F(TierSetRead, ACancelledFindGivesNoEvent) {
  AddTier();
  AddTier(kRemote);
  Open({.read_threads = 1});
  stores_[1]->SetFaults({.finds_hang = true});
  const TierTicket in_hand = set_->Find(Keys(0, 1), Never());
  stores_[1]->WaitForHanging(1);
  const TierTicket queued = set_->Find(Keys(0, 1), Never());
  const TierTicket kept = set_->Find(Keys(0, 1), Never());
  set_->Cancel(in_hand);
  set_->Cancel(queued);
  stores_[1]->SetFaults({});
  for (const TierEvent& event : Await(2)) EXPECT_EQ(event.ticket, kept);
  set_->Cancel(kept);  // ended: passed over
  EXPECT_FALSE(set_->WaitForEvents(microseconds(0)));
}

TEST_F(TierSetRead, FindsBeyondTheQueueFindNothingAtOnce) {
  AddTier(kRemote);
  Open();
  stores_[0]->SetFaults({.finds_hang = true, .hang_passes_deadline = true});
  for (size_t i = 0; i < kReaders; ++i) set_->Find(Keys(0, 1), Never());
  stores_[0]->WaitForHanging(kReaders);
  for (size_t i = 0; i < TierReaders::kMaxFinds; ++i) set_->Find(Keys(0, 1), Never());
  EXPECT_TRUE(set_->TakeEvents().empty());
  set_->Find(Keys(0, 1), Never());
  EXPECT_EQ(NumWith(set_->TakeEvents(), RecordFault::kTimeout), 1u);
  stores_[0]->SetFaults({});
  Await(TierReaders::kMaxFinds + kReaders);
}

TEST_F(TierSetRead, LoadsWhatWasStored) {
  AddTier();
  Open();
  Fill(100);
  const TierTicket ticket = set_->Load(0, Loads(0, 100), Never());
  std::vector<bool> came(100);
  for (const TierEvent& event : Await(100)) {
    EXPECT_EQ(event.kind, TierEvent::Kind::kLoaded);
    EXPECT_EQ(event.ticket, ticket);
    EXPECT_EQ(event.fault, RecordFault::kNone);
    EXPECT_FALSE(came[event.idx]);
    came[event.idx] = true;
  }
  for (int i = 0; i < 100; ++i) {
    const std::vector<std::byte> payload = PayloadOf(i);
    EXPECT_EQ(std::memcmp(memory_[0].data() + static_cast<size_t>(i) * payload.size(),
                          payload.data(), payload.size()),
              0);
  }
}

TEST_F(TierSetRead, FaultsOfBlocksComeBackByName) {
  AddTier();
  Open({.read_threads = 1});
  Fill(4);
  stores_[0]->SetFaults({.nth = 2, .fault = RecordFault::kForged});
  set_->Load(0, Loads(0, 6), Never());  // the last two are not there
  const auto events = Await(6);
  EXPECT_EQ(NumWith(events, RecordFault::kNone), 2u);
  EXPECT_EQ(NumWith(events, RecordFault::kForged), 2u);
  EXPECT_EQ(NumWith(events, RecordFault::kAbsent), 2u);
  stores_[0]->SetFaults({});
  stores_[0]->FlipBits(7);
  set_->Load(0, Loads(0, 4), Never());
  EXPECT_EQ(NumWith(Await(4), RecordFault::kNone), 0u);
}

TEST_F(TierSetRead, ALoadThatHasNotBegunByItsDeadlineTimesOutWithoutTheTier) {
  AddTier();
  Open();
  Fill(40);
  stores_[0]->SetFaults({.loads_hang = true, .hang_passes_deadline = true});
  set_->Load(0, Loads(0, kReaders * kSlice), Never());  // takes all threads
  stores_[0]->WaitForHanging(kReaders);
  set_->Load(0, Loads(0, 20), In(3));
  EXPECT_EQ(NumWith(Await(20), RecordFault::kTimeout), 20u);
  EXPECT_EQ(stores_[0]->num_loads(), static_cast<int64_t>(kReaders));
  EXPECT_EQ(NumFaults(0, RecordFault::kTimeout), 20);
  stores_[0]->SetFaults({});
  EXPECT_EQ(NumWith(Await(kReaders * kSlice), RecordFault::kNone), kReaders * kSlice);
}

TEST_F(TierSetRead, CancelGivesBackAtOnceWhatHasNotBegun) {
  AddTier();
  Open();
  Fill(12);
  stores_[0]->SetFaults({.loads_hang = true, .hang_passes_deadline = true});
  const TierTicket ticket = set_->Load(0, Loads(0, 12), Never());
  stores_[0]->WaitForHanging(kReaders);
  set_->Cancel(ticket);
  EXPECT_EQ(NumWith(set_->TakeEvents(), RecordFault::kCancelled), 12 - kReaders * kSlice);
  stores_[0]->SetFaults({});
  // The block that each thread hangs at arrives; the tier finds the rest cancelled.
  const auto events = Await(kReaders * kSlice);
  EXPECT_EQ(NumWith(events, RecordFault::kNone), kReaders);
  EXPECT_EQ(NumWith(events, RecordFault::kCancelled), kReaders * (kSlice - 1));
}

TEST_F(TierSetRead, BlocksBeyondTheQueueTimeOutAtOnce) {
  AddTier();
  Open();
  stores_[0]->SetFaults({.loads_hang = true, .hang_passes_deadline = true});
  set_->Load(0, Loads(0, kReaders * kSlice), Never());
  stores_[0]->WaitForHanging(kReaders);
  const std::vector<BlockLoad> loads = Loads(0, 1000);
  for (size_t queued = 0; queued <= TierReaders::kMaxBlocks; queued += loads.size()) {
    EXPECT_TRUE(set_->TakeEvents().empty());
    set_->Load(0, loads, Never());
  }
  const size_t num_loads = TierReaders::kMaxBlocks / loads.size() + 1;
  const size_t num_beyond = num_loads * loads.size() - TierReaders::kMaxBlocks;
  EXPECT_EQ(NumWith(set_->TakeEvents(), RecordFault::kTimeout), num_beyond);
  stores_[0]->SetFaults({});
  Await(TierReaders::kMaxBlocks + kReaders * kSlice);
}

TEST_F(TierSetRead, AFindWaitsForNoMoreThanASlice) {
  AddTier(kRemote);
  Open();
  Fill(200);
  stores_[0]->SetFaults({.loads_hang = true, .hang_passes_deadline = true});
  set_->Load(0, Loads(0, 200), Never());
  stores_[0]->WaitForHanging(kReaders);
  set_->Find(Keys(0, 1), Never());
  stores_[0]->SetFaults({.load_ms = 1});
  const auto events = Await(201);
  const auto found = std::ranges::find(events, TierEvent::Kind::kFound, &TierEvent::kind);
  EXPECT_LT(found - events.begin(), 120);  // of two slices of at most 32, and some time to be told
}

TEST_F(TierSetRead, StopWaitsForWhatIsInTheTiersHands) {
  AddTier(kRemote);
  Open();
  Fill(100);
  stores_[0]->SetFaults(
      {.finds_hang = true, .loads_hang = true, .stores_hang = true, .hang_passes_deadline = true});
  set_->Load(0, Loads(0, 100), Never());
  set_->Find(Keys(0, 1), Never());
  for (int i = 100; i < 120; ++i) Offer(i);
  stores_[0]->WaitForHanging(kReaders + 1);
  std::atomic<bool> has_stopped = false;
  std::thread stop([&] {
    set_.reset();
    has_stopped = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_FALSE(has_stopped);
  stores_[0]->SetFaults({});
  stop.join();
  stores_[0]->WaitForHanging(0);
}

TEST_F(TierSetRead, StopWaitsNoLongerThanDeadlines) {
  AddTier(kRemote);
  Open({.store_ms = 10});
  Fill(10);
  stores_[0]->SetFaults({.finds_hang = true, .loads_hang = true, .stores_hang = true});
  set_->Load(0, Loads(0, 10), In(10));
  set_->Find(Keys(0, 1), In(10));
  for (int i = 10; i < 20; ++i) Offer(i);
  set_.reset();  // nobody ends the hanging
  stores_[0]->WaitForHanging(0);
}

TEST_F(TierSetRead, AnEmptyLoadGivesNoEventAndAnEmptyFindOne) {
  AddTier();
  AddTier(kRemote);
  Open();
  set_->Load(0, {}, Never());
  set_->Find({}, Never());
  for (const TierEvent& event : Await(2)) EXPECT_EQ(event.kind, TierEvent::Kind::kFound);
}

}  // namespace
}  // namespace quire::testing
