#include "kv/tiers/disk/disk_catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kv/tiers/disk/disk_fixture.h"

namespace quire {
namespace {

using testing::DiskStore;

class DiskCatalogueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    store_.Open();
    blocks_ = store_.Prompt(0, 6);
    store_.StoreAll(blocks_);
    store_.Close();
    auto tier = OpenDiskTier(other_, store_.options);
    ASSERT_TRUE(tier.ok());
    for (const auto& block : testing::Chain(*other_, 0, 3)) {
      testing::StoreOne(**tier, *other_, block);
    }
  }
  std::unique_ptr<DiskCatalogue> Open(CatalogueMode mode) {
    auto catalogue = DiskCatalogue::Open(store_.path(), mode);
    QUIRE_CHECK(catalogue.ok(), "{}", catalogue.error().message);
    return std::move(*catalogue);
  }
  // Of model 0, entry `entry`.
  static CataloguedRecord Pick(const DiskCatalogue& catalogue, const Digest& model, int entry) {
    for (const auto& record : catalogue.records()) {
      if (record.fingerprint == model && record.entry == entry) return record;
    }
    return {};
  }
  const Digest& model() const { return store_.codec().model().fingerprint; }
  void Flip(const std::filesystem::path& path, size_t at) {
    std::string bytes = ReadFile(path);
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ 4);
    WriteFile(path, bytes);
  }

  DiskStore store_;
  std::shared_ptr<const RecordCodec> other_ = testing::SmallCodec(1);
  std::vector<StoredBlock> blocks_;
};

TEST_F(DiskCatalogueTest, ListsAllModelsAndRecords) {
  const auto catalogue = Open(CatalogueMode::kRead);
  const auto models = catalogue->models();
  ASSERT_EQ(models.size(), 2u);
  uint64_t bytes = 0;
  for (const auto& it : models) {
    EXPECT_EQ(it.num_records, it.fingerprint == model() ? 6 : 3);
    EXPECT_EQ(FingerprintOf(it.ingredients), it.fingerprint);
    EXPECT_GT(it.last_use_s, 1e9);
    bytes += it.bytes;
  }
  EXPECT_EQ(catalogue->records().size(), 9u);
  EXPECT_LE(bytes, catalogue->bytes());
  // Each names the one before it.
  const auto first = Pick(*catalogue, model(), 0);
  const auto second = Pick(*catalogue, model(), 1);
  EXPECT_EQ(second.parent, first.name);
  EXPECT_EQ(first.tenant, store_.codec().TagOf(blocks_[0].root));
}

TEST_F(DiskCatalogueTest, ReadsBesideAWriterAndWritesAlone) {
  store_.Open();
  EXPECT_EQ(Open(CatalogueMode::kRead)->records().size(), 9u);
  const auto writing = DiskCatalogue::Open(store_.path(), CatalogueMode::kWrite);
  ASSERT_FALSE(writing.ok());
  EXPECT_EQ(writing.error().code, ErrorCode::kIo);
  EXPECT_FALSE(DiskCatalogue::Open(store_.path() / "none", CatalogueMode::kRead).ok());
}

TEST_F(DiskCatalogueTest, DoesWithoutAnIndex) {
  std::filesystem::remove(store_.index());
  EXPECT_EQ(Open(CatalogueMode::kRead)->records().size(), 9u);
  EXPECT_FALSE(std::filesystem::exists(store_.index()));
  EXPECT_EQ(Open(CatalogueMode::kWrite)->records().size(), 9u);
  EXPECT_TRUE(std::filesystem::exists(store_.index()));
}

// The first slot is free and the index gone: the other records are no leftovers.
TEST_F(DiskCatalogueTest, AStoreWhoseFirstSlotIsFreeOutlivesItsIndex) {
  {
    const auto catalogue = Open(CatalogueMode::kWrite);
    for (const auto& record : catalogue->records()) {
      if (record.fingerprint == model() && record.slot == 0) {
        ASSERT_TRUE(catalogue->Remove({record}).ok());
        break;
      }
    }
  }
  std::filesystem::remove(store_.index());
  {
    const auto catalogue = Open(CatalogueMode::kWrite);
    ASSERT_TRUE(catalogue->Collect(nullptr, 0).ok());
    EXPECT_EQ(catalogue->records().size(), 8u);
  }
  EXPECT_EQ(Open(CatalogueMode::kRead)->records().size(), 8u);
}

TEST_F(DiskCatalogueTest, VerifyNamesWhatIsHarmed) {
  auto catalogue = Open(CatalogueMode::kRead);
  const auto harmed = Pick(*catalogue, model(), 2);
  Flip(store_.slab(), static_cast<size_t>(harmed.slot) * harmed.bytes + 2000);
  const auto faults = catalogue->Verify(nullptr, nullptr);
  ASSERT_TRUE(faults.ok());
  ASSERT_EQ(faults->size(), 1u);
  EXPECT_EQ((*faults)[0].fault, RecordFault::kChecksum);
  EXPECT_EQ((*faults)[0].record.entry, 2);
  int64_t num_told = 0;
  ASSERT_TRUE(catalogue->Verify(nullptr, [&](int64_t, int64_t) { return ++num_told < 4; }).ok());
  EXPECT_EQ(num_told, 4);
}

TEST_F(DiskCatalogueTest, WhatIsRemovedIsNowhereInTheFile) {
  auto catalogue = Open(CatalogueMode::kWrite);
  const auto record = Pick(*catalogue, model(), 5);
  ASSERT_TRUE(catalogue->Remove({record}).ok());
  EXPECT_EQ(catalogue->records().size(), 8u);
  catalogue.reset();
  const auto payload = testing::PayloadOf(store_.codec(), blocks_[5]);
  const std::string text(reinterpret_cast<const char*>(payload.data()), 64);
  EXPECT_EQ(ReadFile(store_.slab()).find(text), std::string::npos);
  std::filesystem::remove(store_.index());
  store_.Open();
  EXPECT_EQ(store_.NumLoadable(blocks_), 5);
}

TEST_F(DiskCatalogueTest, RecordsMoveFromOneDirectoryToAnother) {
  auto from = Open(CatalogueMode::kRead);
  DiskStore into;
  ASSERT_EQ(::mkdir(into.path().c_str(), 0700), 0);
  {
    auto to = DiskCatalogue::Open(into.path(), CatalogueMode::kWrite);
    ASSERT_TRUE(to.ok());
    for (const auto& record : from->records()) {
      const auto bytes = from->Read(record);
      ASSERT_TRUE(bytes.ok());
      for (const bool is_new : {true, false}) {
        const auto added = (*to)->Add(*bytes, 1 << 20);
        ASSERT_TRUE(added.ok()) << added.error().message;
        EXPECT_EQ(*added, is_new);
      }
    }
    EXPECT_LE(testing::BytesIn(into.path()), uint64_t{1} << 20);
    EXPECT_EQ(Pick(**to, model(), 1).parent, Pick(**to, model(), 0).name);
    EXPECT_FALSE((*to)->Add(std::vector<std::byte>(3000), 1 << 20).ok());
  }
  into.Open();
  EXPECT_EQ(into.NumLoadable(blocks_), 6);
}

TEST_F(DiskCatalogueTest, PackedRecordsThatWereAddedAreLoaded) {
  DiskStore into;
  ASSERT_EQ(::mkdir(into.path().c_str(), 0700), 0);
  {
    auto to = DiskCatalogue::Open(into.path(), CatalogueMode::kWrite);
    ASSERT_TRUE(to.ok());
    std::vector<std::byte> record;
    // Zeros pack; the payload is compared below.
    store_.codec().Encode(blocks_[0], std::vector<std::byte>(testing::kPayloadBytes),
                          Packing::kZstd, record);
    ASSERT_LT(record.size(), 1000u);
    ASSERT_TRUE((*to)->Add(record, 1 << 20).ok());
  }
  into.Open();
  std::vector<std::byte> payload(testing::kPayloadBytes, std::byte{1});
  const BlockLoad load = {.block = blocks_[0], .payload = payload};
  RecordFault result = RecordFault::kAbsent;
  into.tier().Load({&load, 1}, testing::Soon(), nullptr,
                   [&](size_t, RecordFault fault) { result = fault; });
  EXPECT_EQ(result, RecordFault::kNone);
  EXPECT_EQ(payload, std::vector<std::byte>(testing::kPayloadBytes));
}

TEST_F(DiskCatalogueTest, AddKeepsToTheCap) {
  auto from = Open(CatalogueMode::kRead);
  const auto bytes = from->Read(from->records()[0]);
  DiskStore into;
  ASSERT_EQ(::mkdir(into.path().c_str(), 0700), 0);
  auto to = DiskCatalogue::Open(into.path(), CatalogueMode::kWrite);
  const auto added = (*to)->Add(*bytes, 30000);
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().code, ErrorCode::kResourceExhausted);
  EXPECT_LE(testing::BytesIn(into.path()), 30000u);
}

TEST_F(DiskCatalogueTest, CollectRemovesFaultsLeftoversAndOtherModels) {
  const auto leftover = store_.path() / (std::string(64, 'a') + ".index");
  WriteFile(leftover, "left over");
  WriteFile(store_.path() / "notes", "somebody's own");
  Flip(store_.slab(), 2000);
  auto catalogue = Open(CatalogueMode::kWrite);
  const Digest keep = model();
  const uint64_t before = catalogue->bytes();
  const auto won = catalogue->Collect(&keep, 0);
  ASSERT_TRUE(won.ok()) << won.error().message;
  EXPECT_EQ(*won, before - catalogue->bytes());
  EXPECT_GT(*won, 0u);
  EXPECT_EQ(catalogue->records().size(), 5u);
  EXPECT_EQ(catalogue->models().size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(leftover));
  EXPECT_TRUE(std::filesystem::exists(store_.path() / "notes"));
}

TEST_F(DiskCatalogueTest, CollectShrinksToWhatIsAskedAndKeepsTheBeginnings) {
  auto catalogue = Open(CatalogueMode::kWrite);
  const auto won = catalogue->Collect(nullptr, 45000);
  ASSERT_TRUE(won.ok()) << won.error().message;
  EXPECT_LE(catalogue->bytes(), 45000u);
  EXPECT_GE(catalogue->records().size(), 3u);
  catalogue.reset();
  store_.Open();
  bool was_missing = false;
  for (const auto& block : blocks_) {
    const bool is_there = store_.Load(block) == RecordFault::kNone;
    EXPECT_FALSE(is_there && was_missing);
    was_missing = !is_there;
  }
  EXPECT_EQ(testing::NumFaults(store_.tier()), 0);
}

TEST_F(DiskCatalogueTest, ForeignFilesAreNobodysModel) {
  WriteFile(store_.path() / (std::string(64, 'b') + ".slab"), std::string(20000, 'x'));
  auto catalogue = Open(CatalogueMode::kWrite);
  EXPECT_EQ(catalogue->models().size(), 2u);
  ASSERT_TRUE(catalogue->Collect(nullptr, 0).ok());
  EXPECT_FALSE(std::filesystem::exists(store_.path() / (std::string(64, 'b') + ".slab")));
}

}  // namespace
}  // namespace quire
