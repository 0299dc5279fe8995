#include "kv/tiers/disk/index_format.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

#include "kv/tiers/disk/disk_fixture.h"

namespace quire {
namespace {

IndexHeader Header() {
  const StoredModel model = testing::SmallModel(3);
  return {.fingerprint = model.fingerprint,
          .ingredients = model.ingredients,
          .type = KvType::kQ8_0,
          .slot_bytes = 8192};
}

IndexEntry Entry() {
  IndexEntry entry = {.group = 2, .entry = 77, .last_use_s = 12.5, .hits = 9, .record_bytes = 3512};
  entry.name.digest.fill(1);
  entry.parent.digest.fill(2);
  entry.tenant.fill(3);
  return entry;
}

using EntryBytes = std::array<std::byte, kIndexEntryBytes>;

TEST(IndexFormat, HeadersAndEntriesComeBack) {
  std::vector<std::byte> bytes(kIndexHeaderBytes);
  EncodeIndexHeader(Header(), std::span<std::byte, kIndexHeaderBytes>(bytes));
  const auto header = DecodeIndexHeader(bytes);
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->fingerprint, Header().fingerprint);
  EXPECT_EQ(header->type, KvType::kQ8_0);
  EXPECT_EQ(header->slot_bytes, 8192u);
  EXPECT_EQ(header->ingredients.numerics_version, 1);
  EXPECT_FALSE(DecodeIndexHeader(std::span(bytes).first(4095)).has_value());

  EntryBytes entry_bytes;
  EncodeIndexEntry(Entry(), Header().fingerprint, 5, entry_bytes);
  IndexEntry entry;
  ASSERT_EQ(DecodeIndexEntry(entry_bytes, Header().fingerprint, 5, &entry), EntryState::kListed);
  EXPECT_EQ(entry.name, Entry().name);
  EXPECT_EQ(entry.parent, Entry().parent);
  EXPECT_EQ(entry.tenant, Entry().tenant);
  EXPECT_EQ(entry.group, 2);
  EXPECT_EQ(entry.entry, 77);
  EXPECT_EQ(entry.last_use_s, 12.5);
  EXPECT_EQ(entry.hits, 9u);
  EXPECT_EQ(entry.record_bytes, 3512u);
}

TEST(IndexFormat, NoFlippedBitGoesUnnoticed) {
  std::vector<std::byte> bytes(kIndexHeaderBytes);
  EncodeIndexHeader(Header(), std::span<std::byte, kIndexHeaderBytes>(bytes));
  for (size_t bit = 0; bit < 8 * kIndexGenerationOffset; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(DecodeIndexHeader(bytes).has_value()) << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  EntryBytes entry_bytes;
  EncodeIndexEntry(Entry(), Header().fingerprint, 5, entry_bytes);
  IndexEntry entry;
  for (size_t bit = 0; bit < 8 * kIndexEntryBytes; ++bit) {
    entry_bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(DecodeIndexEntry(entry_bytes, Header().fingerprint, 5, &entry), EntryState::kDamaged);
    entry_bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST(IndexFormat, AnEntryCountsForItsSlotAndItsModelAlone) {
  EntryBytes bytes;
  EncodeIndexEntry(Entry(), Header().fingerprint, 5, bytes);
  IndexEntry entry;
  EXPECT_EQ(DecodeIndexEntry(bytes, Header().fingerprint, 6, &entry), EntryState::kDamaged);
  EXPECT_EQ(DecodeIndexEntry(bytes, testing::SmallModel(4).fingerprint, 5, &entry),
            EntryState::kDamaged);
  EXPECT_EQ(DecodeIndexEntry(EntryBytes{}, Header().fingerprint, 5, &entry), EntryState::kFree);
}

TEST(IndexFormat, WhatMakesNoSenseIsDamagedThoughItsChecksumFits) {
  const auto state_of = [](const IndexEntry& given) {
    EntryBytes bytes;
    EncodeIndexEntry(given, Header().fingerprint, 0, bytes);
    IndexEntry entry;
    return DecodeIndexEntry(bytes, Header().fingerprint, 0, &entry);
  };
  IndexEntry entry = Entry();
  entry.last_use_s = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(state_of(entry), EntryState::kDamaged);
  entry = Entry();
  entry.entry = -1;
  EXPECT_EQ(state_of(entry), EntryState::kDamaged);
  entry = Entry();
  entry.record_bytes = 3;
  EXPECT_EQ(state_of(entry), EntryState::kDamaged);
  std::vector<std::byte> bytes(kIndexHeaderBytes);
  for (const uint64_t slot_bytes : {uint64_t{0}, uint64_t{4097}, uint64_t{1} << 40}) {
    IndexHeader header = Header();
    header.slot_bytes = slot_bytes;
    EncodeIndexHeader(header, std::span<std::byte, kIndexHeaderBytes>(bytes));
    EXPECT_FALSE(DecodeIndexHeader(bytes).has_value());
  }
  IndexHeader header = Header();
  header.ingredients.numerics_version = 2;
  EncodeIndexHeader(header, std::span<std::byte, kIndexHeaderBytes>(bytes));
  EXPECT_FALSE(DecodeIndexHeader(bytes).has_value());
}

}  // namespace
}  // namespace quire
