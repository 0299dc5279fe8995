#include "models/pack_cache.h"

#include "models/models_fixture.h"

namespace quire::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool Never() { return false; }

class PackCacheTest : public ModelsTest {
 protected:
  // A model file of its own, all of one size.
  PlannedFile Model(uint32_t seed) {
    return PlanOf(TinyLlama({.layers = {TinyLayer{}}, .seed = seed}),
                  fmt::format("model{}.gguf", seed));
  }

  // Stores the model's pack and dates it.
  std::string Store(const PackCache& cache, const PlannedFile& model, int minutes_ago) {
    const Pack pack = PackOf(model);
    const Status status = cache.Store(model.file, model.plan, pack, Never);
    EXPECT_TRUE(status.ok()) << status.error().message;
    Date(pack.digest, minutes_ago);
    return ToHex(pack.digest);
  }

  void Date(const Digest& digest, int minutes_ago) {
    fs::last_write_time(Path("packs") / (ToHex(digest) + ".pack"),
                        fs::file_time_type::clock::now() - std::chrono::minutes(minutes_ago));
  }

  std::vector<std::string> Listed(const PackCache& cache) {
    std::vector<std::string> digests;
    for (const auto& entry : cache.List()) digests.push_back(entry.digest);
    return digests;
  }

  uint64_t FileBytes(const std::string& digest) {
    return fs::file_size(Path("packs") / (digest + ".pack"));
  }

  PackCache Cache(uint64_t max_bytes = PackCache::kDefaultMaxBytes) {
    return PackCache(Path("packs"), max_bytes);
  }
};

TEST_F(PackCacheTest, FindsWhatWasStoredForTheSameFile) {
  const PlannedFile model = Model(1);
  EXPECT_FALSE(Cache().Find(model.file, model.plan, pool_).has_value());
  Store(Cache(), model, 0);
  const auto found = Cache().Find(model.file, model.plan, pool_);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(SameBytes(*found, PackOf(model)));
  const PlannedFile other = Model(2);
  EXPECT_FALSE(Cache().Find(other.file, other.plan, pool_).has_value());
}

TEST_F(PackCacheTest, AFileThatChangedIsNotFound) {
  const PlannedFile model = Model(1);
  Store(Cache(), model, 0);
  fs::last_write_time(Path("model1.gguf"),
                      fs::last_write_time(Path("model1.gguf")) + std::chrono::seconds(1));
  const PlannedFile touched = Plan(Path("model1.gguf"));
  EXPECT_FALSE(Cache().Find(touched.file, touched.plan, pool_).has_value());
}

TEST_F(PackCacheTest, ModelsOfOneShapeAreToldApart) {
  const PlannedFile first = Model(1);
  const PlannedFile second = Model(2);
  Store(Cache(), first, 0);
  Store(Cache(), second, 0);
  EXPECT_TRUE(SameBytes(*Cache().Find(first.file, first.plan, pool_), PackOf(first)));
  EXPECT_TRUE(SameBytes(*Cache().Find(second.file, second.plan, pool_), PackOf(second)));
  // The wrong pack under a right name is not used.
  fs::copy_file(Path("packs") / (ToHex(PackOf(second).digest) + ".pack"),
                Path("packs") / (ToHex(PackOf(first).digest) + ".pack"),
                fs::copy_options::overwrite_existing);
  EXPECT_FALSE(Cache().Find(first.file, first.plan, pool_).has_value());
}

TEST_F(PackCacheTest, TheLeastRecentlyUsedGoesFirst) {
  const PlannedFile models[] = {Model(1), Model(2), Model(3)};
  const std::string first = Store(Cache(), models[0], 30);
  const uint64_t each = FileBytes(first);
  const PackCache cache = Cache(2 * each + each / 2);
  const std::string second = Store(cache, models[1], 20);
  // Used again, the first is the newer one.
  ASSERT_TRUE(cache.Find(models[0].file, models[0].plan, pool_).has_value());
  const std::string third = Store(cache, models[2], 0);
  EXPECT_THAT(Listed(cache), ElementsAre(third, first));
  EXPECT_FALSE(cache.Find(models[1].file, models[1].plan, pool_).has_value());
}

TEST_F(PackCacheTest, FilesTogetherStayUnderTheBound) {
  const PlannedFile first = Model(1);
  const PlannedFile second = Model(2);
  const uint64_t each = FileBytes(Store(Cache(), first, 10));
  // One byte short of both files.
  const PackCache cache = Cache(2 * each - 1);
  Store(cache, second, 0);
  uint64_t used = 0;
  for (const auto& entry : cache.List()) used += entry.bytes;
  EXPECT_LE(used, 2 * each - 1);
}

TEST_F(PackCacheTest, APackOverTheBoundIsNotStored) {
  const PlannedFile model = Model(1);
  const Status status = Cache(1000).Store(model.file, model.plan, PackOf(model), Never);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(Cache().List().empty());
}

TEST_F(PackCacheTest, ADamagedPackIsMadeAgain) {
  const PlannedFile model = Model(1);
  const std::string digest = Store(Cache(), model, 0);
  const fs::path path = Path("packs") / (digest + ".pack");
  for (const size_t kept : {size_t{0}, size_t{100}, size_t{5000}}) {
    fs::resize_file(path, kept);
    EXPECT_FALSE(Cache().Find(model.file, model.plan, pool_).has_value());
    Store(Cache(), model, 0);
    EXPECT_TRUE(Cache().Find(model.file, model.plan, pool_).has_value()) << kept;
  }
}

TEST_F(PackCacheTest, APackOfAnOlderLayoutIsMadeAgain) {
  const PlannedFile model = Model(1);
  const fs::path path = Path("packs") / (Store(Cache(), model, 0) + ".pack");
  std::string bytes = ReadFile(path);
  bytes[8] = static_cast<char>(bytes[8] + 1);
  WriteFile(path, bytes);
  EXPECT_FALSE(Cache().Find(model.file, model.plan, pool_).has_value());
  Store(Cache(), model, 0);
  EXPECT_TRUE(Cache().Find(model.file, model.plan, pool_).has_value());
}

TEST_F(PackCacheTest, NonsenseInTheFolderDoesNoHarm) {
  const PlannedFile model = Model(1);
  const std::string digest = Store(Cache(), model, 0);
  fs::create_directory(Path("packs") / "folder.pack");
  WriteFile(Path("packs") / "folder.pack" / "file", "x");
  WriteFile(Path("packs") / "notes.txt", "hello");
  for (const auto& entry : fs::directory_iterator(Path("packs"))) {
    if (entry.path().extension() == ".source") WriteFile(entry.path(), "../../etc/passwd");
  }
  EXPECT_FALSE(Cache().Find(model.file, model.plan, pool_).has_value());
  EXPECT_THAT(Listed(Cache()), ElementsAre(digest));
  EXPECT_TRUE(fs::exists(Path("packs") / "notes.txt"));
}

TEST_F(PackCacheTest, WhatAKilledProcessLeftIsClearedAway) {
  const PlannedFile model = Model(1);
  fs::create_directories(Path("packs"));
  const fs::path leftover = Path("packs") / "0123.pack.999999999.part";
  WriteFile(leftover, std::string(100, 'x'));
  fs::last_write_time(leftover, fs::file_time_type::clock::now() - std::chrono::hours(48));
  Store(Cache(), model, 0);
  EXPECT_FALSE(fs::exists(leftover));
}

TEST_F(PackCacheTest, RemovesOneByItsBeginningOrAll) {
  const std::string first = Store(Cache(), Model(1), 1);
  const std::string second = Store(Cache(), Model(2), 0);
  EXPECT_FALSE(Cache().Remove("").ok());
  EXPECT_EQ(Cache().Remove("zz").error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(Cache().Remove(first.substr(0, 12)).ok());
  EXPECT_THAT(Listed(Cache()), ElementsAre(second));
  ASSERT_TRUE(Cache().RemoveAll().ok());
  EXPECT_TRUE(fs::is_empty(Path("packs")));
}

TEST_F(PackCacheTest, AFolderThatCannotBeMadeIsAnErrorThatNamesIt) {
  WriteFile(Path("packs"), "a file in the way");
  const PlannedFile model = Model(1);
  EXPECT_FALSE(Cache().Find(model.file, model.plan, pool_).has_value());
  const Status status = Cache().Store(model.file, model.plan, PackOf(model), Never);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("packs"));
  EXPECT_TRUE(Cache().List().empty());
}

}  // namespace
}  // namespace quire::testing
