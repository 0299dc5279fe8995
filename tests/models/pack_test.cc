// Packs in memory and in files.
#include "models/pack.h"

#include "models/models_fixture.h"

namespace quire::testing {
namespace {

using ::testing::HasSubstr;

bool Never() { return false; }

class PackTest : public ModelsTest {
 protected:
  Digest DigestOf(const TinyLlama& model) { return PackOf(PlanOf(model)).digest; }
};

TEST_F(PackTest, TheDigestIsOfTheWeightsAlone) {
  const TinyLlama model({});
  const Digest digest = DigestOf(model);
  EXPECT_EQ(PackOf(PlanOf(model, "another-name.gguf")).digest, digest);

  TinyLlama renamed({});
  renamed.SetString("general.name", "something else");
  renamed.SetString("tokenizer.chat_template", "{{ messages }}");
  EXPECT_EQ(DigestOf(renamed), digest);

  TinyLlama reordered({});
  std::ranges::reverse(reordered.tensors());
  EXPECT_EQ(DigestOf(reordered), digest);

  ASSERT_TRUE(model.WriteSplit(directory_.path(), "split", 3));
  EXPECT_EQ(PackOf(Plan(Path("split-00002-of-00003.gguf"))).digest, digest);
}

TEST_F(PackTest, ThreadsChangeNothing) {
  const PlannedFile planned = PlanOf(TinyLlama({.matrices = DType::kF16}));
  ThreadPool one(1);
  ThreadPool five(5);
  const Pack expected = PackWeights(planned.file, planned.plan, one, {}).value();
  EXPECT_TRUE(SameBytes(PackWeights(planned.file, planned.plan, five, {}).value(), expected));
  EXPECT_EQ(DigestWeights(planned.file, planned.plan, five), expected.digest);
}

TEST_F(PackTest, AnyChangedByteOfAnyTensorChangesTheDigest) {
  const TinyLlama model({});
  const Digest digest = DigestOf(model);
  for (size_t i = 0; i < model.Widened().tensors().size(); ++i) {
    TinyLlama changed({});
    std::string& bytes = changed.tensors()[i].bytes;
    bytes[(i * 997) % bytes.size()] ^= 1;
    EXPECT_NE(DigestOf(changed), digest) << changed.tensors()[i].name;
  }
}

TEST_F(PackTest, TensorsThatChangePlacesChangeTheDigest) {
  TinyLlama swapped({});
  std::swap(swapped.tensor("blk.0.ffn_gate.weight").bytes,
            swapped.tensor("blk.0.ffn_up.weight").bytes);
  EXPECT_NE(DigestOf(swapped), DigestOf(TinyLlama({})));
}

TEST_F(PackTest, ProgressReachesTheEndAndCanStop) {
  // 60 rows, which packing pads to 64.
  const PlannedFile planned = PlanOf(TinyLlama({.vocab_size = 60, .num_tokens = 60}));
  ThreadPool one(1);
  size_t last = 0;
  size_t all = 0;
  const auto pack =
      PackWeights(planned.file, planned.plan, one, [&](size_t done_bytes, size_t total_bytes) {
        EXPECT_GE(done_bytes, last);
        last = done_bytes;
        all = total_bytes;
        return true;
      });
  ASSERT_TRUE(pack.ok());
  EXPECT_EQ(last, all);
  const auto stopped =
      PackWeights(planned.file, planned.plan, one, [](size_t, size_t) { return false; });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::kInterrupted);
}

class PackFileTest : public PackTest {
 protected:
  void SetUp() override {
    planned_.emplace(PlanOf(TinyLlama({.layers = {TinyLayer{}}, .matrices = DType::kQ4_0})));
    pack_ = PackOf(*planned_);
    ASSERT_TRUE(WritePackFile(Path("p.pack"), planned_->plan, pack_, Never).ok());
    bytes_ = ReadFile(Path("p.pack"));
  }

  Result<Pack> Read(const std::string& bytes) {
    WriteFile(Path("damaged.pack"), bytes);
    return ReadPackFile(Path("damaged.pack"), planned_->plan, pool_);
  }

  std::optional<PlannedFile> planned_;
  Pack pack_;
  std::string bytes_;
};

TEST_F(PackFileTest, WhatIsWrittenIsRead) {
  const auto read = ReadPackFile(Path("p.pack"), planned_->plan, pool_);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(SameBytes(*read, pack_));
}

TEST_F(PackFileTest, EveryCutOrLengthenedFileIsRefused) {
  for (size_t size = 0; size < bytes_.size(); size += size < 5000 ? 7 : 997) {
    const auto read = Read(bytes_.substr(0, size));
    ASSERT_FALSE(read.ok()) << size;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(read.error().message, HasSubstr("damaged.pack"));
  }
  EXPECT_FALSE(Read(bytes_.substr(0, bytes_.size() - 1)).ok());
  EXPECT_FALSE(Read(bytes_ + '\0').ok());
}

TEST_F(PackFileTest, AnyFlippedBitOfTheHeaderIsRefused) {
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes_.data() + 12, sizeof(header_bytes));
  ASSERT_GT(header_bytes, 100u);
  ASSERT_LT(header_bytes, 4096u);
  for (size_t bit = 0; bit < header_bytes * 8; ++bit) {
    std::string damaged = bytes_;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const auto read = Read(damaged);
    ASSERT_FALSE(read.ok()) << "bit " << bit;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  }
}

TEST_F(PackFileTest, APackOfAnotherLayoutOrModelIsRefused) {
  std::string other_layout = bytes_;
  other_layout[8] = static_cast<char>(kPackLayoutVersion + 1);
  EXPECT_THAT(Read(other_layout).error().message, HasSubstr("another layout"));

  const PlannedFile larger = PlanOf(TinyLlama({.matrices = DType::kQ4_0}), "larger.gguf");
  const auto read = ReadPackFile(Path("p.pack"), larger.plan, pool_);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().message, HasSubstr("other tensors"));
}

TEST_F(PackFileTest, ACancelledOrRefusedWriteLeavesNothing) {
  const Status cancelled =
      WritePackFile(Path("q.pack"), planned_->plan, pack_, [] { return true; });
  ASSERT_FALSE(cancelled.ok());
  EXPECT_EQ(cancelled.error().code, ErrorCode::kInterrupted);
  EXPECT_FALSE(WritePackFile(Path("no/such/folder/q.pack"), planned_->plan, pack_, Never).ok());
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    EXPECT_NE(entry.path().extension(), ".part");
    EXPECT_FALSE(entry.path().filename().string().starts_with("q.pack"));
  }
}

TEST_F(PackFileTest, AMissingFileIsNotFound) {
  const auto read = ReadPackFile(Path("none.pack"), planned_->plan, pool_);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace quire::testing
