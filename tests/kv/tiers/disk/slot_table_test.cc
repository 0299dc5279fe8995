// The table against its naive twin: a list that is searched from end to end.
#include "kv/tiers/disk/slot_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace quire {
namespace {

using Random = std::mt19937;

RecordName Name(int number) {
  RecordName name;
  name.digest[0] = static_cast<uint8_t>(number);
  name.digest[1] = static_cast<uint8_t>(number >> 8);
  name.digest[31] = 1;  // never the name of no parent
  return name;
}
TenantTag Tag(int number) { return {static_cast<uint8_t>(number)}; }

constexpr int kChainBlocks = 6;

// Block `number` is part of a chain: its parent is the number before it, but for the first.
IndexEntry EntryOf(int number) {
  const int position = number % kChainBlocks;
  return {.name = Name(number),
          .parent = position == 0 ? RecordName{.digest = {0, 0, 1}} : Name(number - 1),
          .tenant = Tag(number % 3),
          .group = 0,
          .entry = position,
          .last_use_s = 1,
          .record_bytes = 4096};
}

int NumFree(SlotTable table) {
  int num = 0;
  while (table.TakeFree().has_value()) ++num;
  return num;
}

double Cost(int entry) { return 1 + entry * 0.25; }

// What is listed, with its worth as the rule says.
class Twin {
 public:
  struct Listed {
    double worth = 0;
    int readers = 0;
    uint32_t uses = 1;
  };

  void List(int number, int64_t num_slots) {
    ++clock_;
    listed_[number] = {.worth = WorthOf(clock_, 1, Cost(number % kChainBlocks), num_slots)};
  }
  void Use(int number, int64_t num_slots) {
    Listed& it = listed_.at(number);
    it.worth = WorthOf(++clock_, ++it.uses, Cost(number % kChainBlocks), num_slots);
  }
  void Drop(int number) { listed_.erase(number); }
  bool Holds(int number) const { return listed_.contains(number); }
  Listed& at(int number) { return listed_.at(number); }
  const std::map<int, Listed>& listed() const { return listed_; }

  // The block that must give way for `number`; -1 = none.
  int Worst(int number, int tenant, int64_t num_slots) {
    ++clock_;
    const double worth = WorthOf(clock_, 1, Cost(number % kChainBlocks), num_slots);
    int worst = -1;
    for (const auto& [other, it] : listed_) {
      const bool has_child = other % kChainBlocks != kChainBlocks - 1 && Holds(other + 1);
      const bool is_parent = number % kChainBlocks != 0 && other == number - 1;
      const bool is_tenants = tenant < 0 || other % 3 == tenant;
      if (has_child || is_parent || it.readers > 0 || !is_tenants) continue;
      const bool is_equal = worst >= 0 && it.worth == listed_.at(worst).worth;
      const bool is_further = is_equal && other % kChainBlocks > worst % kChainBlocks;
      if (worst < 0 || it.worth < listed_.at(worst).worth || is_further) worst = other;
    }
    return worst >= 0 && listed_.at(worst).worth <= worth ? worst : -1;
  }

 private:
  std::map<int, Listed> listed_;
  uint64_t clock_ = 0;
};

TEST(SlotTable, DoesWhatItsNaiveTwinDoes) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    SlotTable table({.by_tenant = true, .cost = Cost});
    int64_t num_slots = 20;
    table.Resize(num_slots);
    Twin twin;
    std::vector<std::pair<int, SlotTable::Found>> pins;
    int num_evicted = 0;
    for (int i = 0; i < 1500 && !::testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(i);
      const int number = static_cast<int>(random() % 90);
      const RecordName name = Name(number);
      ASSERT_EQ(table.Holds(name), twin.Holds(number));
      switch (random() % 8) {
        case 0:
        case 1:
        case 2: {  // store
          if (twin.Holds(number)) break;
          const IndexEntry entry = EntryOf(number);
          auto slot = table.TakeFree();
          if (!slot.has_value()) {
            const int tenant = random() % 2 == 0 ? -1 : number % 3;
            const TenantTag tag = Tag(tenant);
            slot = table.TakeWorst(entry, tenant < 0 ? nullptr : &tag);
            const int worst = twin.Worst(number, tenant, num_slots);
            ASSERT_EQ(slot.has_value(), worst >= 0);
            if (!slot.has_value()) break;
            // Of equals it may be any.
            const auto& given = table.entry(slot->slot).name.digest;
            const int number_given = given[0] + 256 * given[1];
            ASSERT_EQ(twin.at(number_given).worth, twin.at(worst).worth);
            ASSERT_EQ(number_given % kChainBlocks, worst % kChainBlocks);
            twin.Drop(number_given);
            ++num_evicted;
          }
          if (random() % 8 == 0) {  // the write failed
            table.GiveBack(*slot);
            break;
          }
          ASSERT_TRUE(table.List(*slot, entry));
          twin.List(number, num_slots);
          break;
        }
        case 3:
        case 4:
          if (const auto found = table.Find(name)) {
            table.Use(found->slot, i, nullptr);
            twin.Use(number, num_slots);
          }
          break;
        case 5:
          if (pins.size() < 5) {
            if (const auto found = table.Pin(name)) {
              pins.emplace_back(number, *found);
              ++twin.at(number).readers;
            }
          }
          break;
        case 6:
          if (!pins.empty()) {
            const auto [pinned, found] = pins.back();
            pins.pop_back();
            if (table.IsStill(found)) --twin.at(pinned).readers;
            table.Unpin(found);
          }
          break;
        default:
          if (random() % 4 != 0) break;
          if (const auto found = table.Find(name)) {
            table.Drop(found->slot);
            twin.Drop(number);
          }
          break;
      }
      table.CheckInvariants();
      ASSERT_EQ(table.num_listed(), static_cast<int64_t>(twin.listed().size()));
    }
    EXPECT_GT(num_evicted, 50);
  }
}

TEST(SlotTable, ASlotThatIsReadIsNotHandedOut) {
  SlotTable table({});
  table.Resize(1);
  const auto slot = table.TakeFree();
  ASSERT_TRUE(table.List(*slot, EntryOf(0)));
  const auto reader = table.Pin(Name(0));
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ(table.TakeWorst(EntryOf(50), nullptr), std::nullopt);
  table.Drop(0);
  EXPECT_FALSE(table.Holds(Name(0)));
  EXPECT_EQ(table.TakeFree(), std::nullopt);
  table.Unpin(*reader);
  EXPECT_TRUE(table.TakeFree().has_value());
}

TEST(SlotTable, KeepsOneOfTwoEntriesOfAName) {
  SlotTable table({});
  table.Fill({EntryOf(1), EntryOf(1), EntryOf(2)}, {});
  EXPECT_EQ(table.num_listed(), 2);
  EXPECT_EQ(NumFree(table), 1);
  EXPECT_EQ(table.TakeUnwritten(10).size(), 1u);
  table.CheckInvariants();
}

TEST(SlotTable, WhatChangesHandsIsNoLongerWhatWasFound) {
  SlotTable table({});
  table.Fill({EntryOf(1)}, {});
  const auto before = table.Pin(Name(1));
  SlotTable other({});
  other.Fill({EntryOf(1)}, {});
  other.GoOnFrom(table);
  EXPECT_FALSE(other.IsStill(*before));
  other.Unpin(*before);
  other.CheckInvariants();
  table.Clear();
  EXPECT_FALSE(table.IsStill(*before));
  table.Unpin(*before);
}

TEST(SlotTable, TheOrderOfUseOutlivesARestart) {
  auto early = EntryOf(0);
  auto late = EntryOf(30);
  early.last_use_s = 10;
  late.last_use_s = 20;
  SlotTable table({});
  table.Fill({late, early}, {});
  const auto slot = table.TakeWorst(EntryOf(60), nullptr);
  ASSERT_TRUE(slot.has_value());
  EXPECT_TRUE(table.Holds(late.name));
  EXPECT_FALSE(table.Holds(early.name));
}

TEST(SlotTable, FewerSlotsForgetWhatTheLastOnesHeld) {
  SlotTable table({});
  table.Fill({EntryOf(0), EntryOf(1), EntryOf(2)}, {});
  table.Resize(1);
  EXPECT_TRUE(table.Holds(Name(0)));
  EXPECT_FALSE(table.Holds(Name(2)));
  table.CheckInvariants();
  table.Resize(4);
  EXPECT_EQ(NumFree(table), 3);
  table.CheckInvariants();
}

}  // namespace
}  // namespace quire
