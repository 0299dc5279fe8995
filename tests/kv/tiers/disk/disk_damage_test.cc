// Random faults on real stores: after each, every load gives the right block or a named, counted
// fault, the cap holds, and afterwards the store works. QUIRE_DAMAGE_FAULTS sets how many.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>

#include "kv/tiers/disk/disk_fixture.h"
#include "kv/tiers/disk/index_format.h"
#include "support/faulty_files.h"

namespace quire {
namespace {

using testing::FaultyFiles;
using Random = std::mt19937;

constexpr uint64_t kCap = 250000;
constexpr int kPrompts = 4;
constexpr int kBlocksEach = 6;
constexpr size_t kSlotBytes = 4096;

int Pick(Random& random, int num) {
  return static_cast<int>(random() % static_cast<unsigned>(num));
}

int64_t NumFromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

// What two models have stored, as files in memory.
struct Stored {
  std::string slab{};
  std::string index{};
};

class Damage {
 public:
  Damage() {
    options_.directory = scratch_.path() / "kv";
    options_.max_bytes = kCap;
    options_.min_free_bytes = 0;
    options_.files = &files_;
    options_.now_s = [this] { return now_s_; };
    for (const int model : {0, 1}) {
      const auto codec = testing::SmallCodec(model);
      auto tier = OpenDiskTier(codec, options_);
      QUIRE_CHECK(tier.ok(), "{}", tier.error().message);
      for (int prompt = 0; prompt < kPrompts; ++prompt) {
        // The last is another tenant's.
        const auto salt = prompt == kPrompts - 1 ? "other" : "";
        for (const auto& block : testing::Chain(*codec, 1000 * prompt, kBlocksEach, salt)) {
          const auto outcome = testing::StoreOne(**tier, *codec, block);
          QUIRE_CHECK(outcome == StoreOutcome::kStored, "outcome {}", static_cast<int>(outcome));
          if (model == 0) blocks_.push_back(block);
        }
      }
      tier->reset();
      stored_[static_cast<size_t>(model)] = {.slab = ReadFile(PathOf(model, ".slab")),
                                             .index = ReadFile(PathOf(model, ".index"))};
      std::filesystem::remove_all(options_.directory);
    }
  }

  // One fault, from its seed.
  void Run(uint32_t seed) {
    Random random(seed);
    std::filesystem::remove_all(options_.directory);
    ASSERT_EQ(::mkdir(options_.directory.c_str(), 0700), 0);
    Stored files = stored_[0];
    HarmFiles(random, files);
    files_.Clear();
    const bool injects = Pick(random, 3) == 0;
    if (injects) Inject(random);
    OpenAgain();
    if (tier_ == nullptr) {
      ASSERT_TRUE(injects);
      files_.Clear();
      OpenAgain();
      ASSERT_NE(tier_, nullptr) << error_;
    }
    if (injects && Pick(random, 2) == 0) Inject(random);
    if (Pick(random, 3) == 0) HarmWhileOpen(random);
    UseIt(random);
    files_.Clear();
    MustWork();
    tier_.reset();
  }

  const std::map<std::string, int64_t>& named() const { return named_; }

 private:
  std::filesystem::path PathOf(int model, const char* ending) const {
    return options_.directory / (ToHex(testing::SmallModel(model).fingerprint) + ending);
  }

  void OpenAgain() {
    tier_.reset();
    auto tier = OpenDiskTier(codec_, options_);
    if (tier.ok()) {
      tier_ = std::move(*tier);
    } else {
      error_ = tier.error().message;
      EXPECT_FALSE(error_.empty());
    }
  }

  static void FlipBits(Random& random, std::string& bytes, size_t end) {
    for (int i = Pick(random, 4); i >= 0; --i) {
      const size_t at = random() % std::min(end, bytes.size());
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << Pick(random, 8)));
    }
  }
  static void SwapOrCopy(Random& random, std::string& bytes, size_t begin, size_t size, int num,
                         bool swaps) {
    const size_t a = begin + size * static_cast<size_t>(Pick(random, num));
    const size_t b = begin + size * static_cast<size_t>(Pick(random, num));
    const std::string first = bytes.substr(a, size);
    if (swaps) bytes.replace(a, size, bytes.substr(b, size));
    bytes.replace(b, size, first);
  }
  static std::string Garbage(Random& random, size_t size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  }

  void HarmFiles(Random& random, Stored& files) {
    constexpr int kBlocks = kPrompts * kBlocksEach;
    const size_t used_slab = kBlocks * kSlotBytes;
    const size_t used_index = kIndexHeaderBytes + kBlocks * kIndexEntryBytes;
    bool has_slab = true;
    bool has_index = true;
    switch (Pick(random, 17)) {
      case 0:
        FlipBits(random, files.slab, used_slab);
        break;
      case 1:
        FlipBits(random, files.index, used_index);
        break;
      case 2:
        files.slab.resize(random() % used_slab);
        break;
      case 3:
        files.index.resize(random() % used_index);
        break;
      case 4:
        SwapOrCopy(random, files.slab, 0, kSlotBytes, kBlocks, Pick(random, 2) == 0);
        break;
      case 5:
        SwapOrCopy(random, files.index, kIndexHeaderBytes, kIndexEntryBytes, kBlocks,
                   Pick(random, 2) == 0);
        break;
      case 6:  // another model's files under our name
        files = stored_[1];
        break;
      case 7:
        files.slab = stored_[1].slab;
        if (Pick(random, 2) == 0) has_index = false;
        break;
      case 8:
        files.index = stored_[1].index;
        break;
      case 9:
        files.slab = Garbage(random, random() % 60000);
        break;
      case 10:
        files.index = Garbage(random, random() % 20000);
        break;
      case 11:
        has_slab = false;
        break;
      case 12:
        has_index = false;
        if (Pick(random, 2) == 0) FlipBits(random, files.slab, used_slab);
        break;
      case 13: {  // a stretch of zeros, as a lost page leaves
        std::string& file = Pick(random, 2) == 0 ? files.slab : files.index;
        const size_t at = random() % std::min(file.size(), used_slab);
        file.replace(at, std::min<size_t>(4096, file.size() - at),
                     std::string(std::min<size_t>(4096, file.size() - at), '\0'));
        break;
      }
      case 14:
        files.slab += Garbage(random, random() % 10000);
        break;
      case 15: {  // other models' records in our slots
        const size_t at = kSlotBytes * static_cast<size_t>(Pick(random, kBlocks));
        files.slab.replace(at, kSlotBytes, stored_[1].slab, at, kSlotBytes);
        if (Pick(random, 2) == 0) has_index = false;
        break;
      }
      default:
        break;  // harmed otherwise, or not at all
    }
    if (has_slab) WriteFile(PathOf(0, ".slab"), files.slab);
    if (has_index) WriteFile(PathOf(0, ".index"), files.index);
    if (Pick(random, 8) == 0) WriteFile(options_.directory / "foreign", Garbage(random, 3000));
  }

  void Inject(Random& random) {
    const auto call = static_cast<FaultyFiles::Call>(Pick(random, FaultyFiles::kNumCalls));
    const bool moves = call == FaultyFiles::Call::kRead || call == FaultyFiles::Call::kWrite;
    static constexpr std::array kErrors = {EIO, ENOSPC, EACCES, EROFS, EDQUOT, EMFILE};
    FaultyFiles::Fault fault = {
        .call = call, .after = Pick(random, 30), .times = 1 + Pick(random, 6)};
    fault.error = kErrors[static_cast<size_t>(Pick(random, kErrors.size()))];
    if (moves && Pick(random, 2) == 0) {
      fault.max_bytes = 1 + random() % 3000;
      if (Pick(random, 2) == 0) fault.error = 0;
    }
    files_.Inject(fault);
  }

  void HarmWhileOpen(Random& random) {
    const auto path = PathOf(0, Pick(random, 2) == 0 ? ".slab" : ".index");
    std::error_code error;
    switch (Pick(random, 5)) {
      case 0:
        std::filesystem::remove(path, error);
        break;
      case 1:
        std::filesystem::resize_file(path, random() % 60000, error);
        break;
      case 2:
        std::filesystem::remove_all(options_.directory, error);
        break;
      case 3: {
        std::string bytes = ReadFile(path);
        if (bytes.empty()) break;
        FlipBits(random, bytes, kPrompts * kBlocksEach * kSlotBytes);
        // In place, as a disk changes bytes.
        FILE* file = std::fopen(path.c_str(), "r+b");
        if (file == nullptr) break;
        std::fwrite(bytes.data(), 1, bytes.size(), file);
        std::fclose(file);
        break;
      }
      default:
        std::filesystem::rename(path, scratch_.path() / "aside", error);
        break;
    }
  }

  RecordFault Load(const StoredBlock& block) {
    const int64_t before = testing::NumFaults(*tier_);
    const RecordFault fault = testing::LoadOne(*tier_, *codec_, block);
    ++named_[std::string(NameOf(fault))];
    if (fault != RecordFault::kNone && fault != RecordFault::kAbsent) {
      EXPECT_GT(testing::NumFaults(*tier_), before) << NameOf(fault);
    }
    return fault;
  }

  void CheckCap() const { EXPECT_LE(testing::BytesIn(options_.directory), kCap); }

  void UseIt(Random& random) {
    for (int i = 0; i < 40; ++i) {
      now_s_ += 0.2;
      const auto& block =
          blocks_[static_cast<size_t>(Pick(random, static_cast<int>(blocks_.size())))];
      if (Pick(random, 3) != 0) {
        Load(block);
      } else {
        const auto outcome = testing::StoreOne(*tier_, *codec_, block);
        if (outcome == StoreOutcome::kStored) CheckCap();
      }
      if (Pick(random, 30) == 0) (void)tier_->Flush(testing::Soon());
      if (Pick(random, 40) == 0) {
        OpenAgain();
        if (tier_ == nullptr) {
          files_.Clear();
          OpenAgain();
          ASSERT_NE(tier_, nullptr) << error_;
        }
      }
    }
  }

  // Without further faults: what is not right is found out at its first load, and stored again. A
  // store opens files that had gone, so that there may be more to find out.
  void MustWork() {
    now_s_ += 100;
    testing::StoreOne(*tier_, *codec_, blocks_[0]);
    for (const auto& block : blocks_) Load(block);
    for (const auto& block : blocks_) {
      const auto outcome = testing::StoreOne(*tier_, *codec_, block);
      EXPECT_TRUE(outcome == StoreOutcome::kStored || outcome == StoreOutcome::kHeld)
          << static_cast<int>(outcome);
    }
    for (int round = 0; round < 2; ++round) {
      for (const auto& block : blocks_) EXPECT_EQ(Load(block), RecordFault::kNone);
      const TierStatus status = tier_->status();
      // A harmed name in a slot whose index was lost is one more, that nobody asks for.
      EXPECT_GE(status.num_records, static_cast<int64_t>(blocks_.size()));
      if (round == 0) OpenAgain();
    }
    CheckCap();
  }

  ScratchDirectory scratch_;
  FaultyFiles files_;
  DiskTierOptions options_;
  double now_s_ = 1000;
  std::shared_ptr<const RecordCodec> codec_ = testing::SmallCodec(0);
  std::array<Stored, 2> stored_{};
  std::vector<StoredBlock> blocks_;
  std::unique_ptr<Tier> tier_;
  std::string error_;
  std::map<std::string, int64_t> named_;
};

TEST(DiskDamage, EveryLoadIsRightOrANamedFault) {
  const int64_t num_faults = NumFromEnvironment("QUIRE_DAMAGE_FAULTS", 300);
  const auto first = static_cast<uint32_t>(NumFromEnvironment("QUIRE_DAMAGE_SEED", 1));
  Damage damage;
  for (int64_t i = 0; i < num_faults && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("QUIRE_DAMAGE_SEED=" + std::to_string(first + i));
    damage.Run(first + static_cast<uint32_t>(i));
  }
  for (const auto& [name, count] : damage.named()) {
    std::printf("%s %lld\n", name.c_str(), static_cast<long long>(count));
  }
  if (num_faults < 300) return;
  for (const char* name :
       {"none", "absent", "checksum", "foreign", "other_model", "other_block", "io"}) {
    EXPECT_TRUE(damage.named().contains(name)) << name;
  }
}

}  // namespace
}  // namespace quire
