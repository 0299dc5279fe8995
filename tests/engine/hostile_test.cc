// A model file cut, flipped or lying at every place: an error or a run, in bounded memory and time.
#include <gmock/gmock.h>

#include <random>

#include "engine/engine_fixture.h"
#include "engine/hostile_fixture.h"
#include "support/scratch_directory.h"
#include "support/tiny_llama.h"

namespace quire::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;

constexpr rlim_t kGiB = rlim_t{1} << 30;
constexpr int kCuts = 200;
constexpr int kFlips = 2000;
constexpr int kFlipsPerChild = 100;
// Tiny models need some MiB; a child starts with what the test program has.
constexpr long kMostPeakKib = 400 * 1024;

// Makes an engine and an answer of four tokens. The error, or "ran".
std::string Use(const std::filesystem::path& path,
                const RunnerOptions& options = {.num_threads = 2}) {
  const auto engine = Engine::Create(path, {.runner = options});
  if (!engine.ok()) return engine.error().message;
  const auto result = Generate(**engine, GreedyRequest({0, (*engine)->vocab_size() - 1}, 4));
  return result.ok() ? "ran" : result.error().message;
}

class HostileTest : public ::testing::Test {
 protected:
  std::filesystem::path Path() const { return directory_.path() / "model.gguf"; }

  ScratchDirectory directory_;
};

// Bytes before the data of the first tensor, whose rows are not zero.
size_t HeaderBytes(const std::filesystem::path& path) {
  const auto file = GgufFile::Open(path);
  if (!file.ok()) return 0;
  const std::byte* first = nullptr;
  for (const GgufTensor& tensor : file->tensors()) {
    if (first == nullptr || tensor.data.data() < first) first = tensor.data.data();
  }
  return static_cast<size_t>(first - file->parts()[0].bytes().data());
}

TEST_F(HostileTest, ACutFileIsRefusedByName) {
  const std::string whole = ReadFile(TinyModel("tiny-llama"));
  const ChildOutcome outcome = InChild({.address_space_bytes = 4 * kGiB}, [&](auto say) {
    for (int i = 0; i < kCuts; ++i) {
      // The last one lacks a byte.
      const size_t size = i + 1 == kCuts ? whole.size() - 1 : whole.size() * i / kCuts;
      say(fmt::format("cut to {} bytes", size));
      WriteFile(Path(), whole.substr(0, size));
      if (Use(Path()).find("model.gguf") == std::string::npos) ::_exit(1);
    }
    say("done");
  });
  EXPECT_TRUE(outcome.survived) << outcome.said << ", status " << outcome.status;
  EXPECT_EQ(outcome.said, "done");
  EXPECT_LT(outcome.peak_kib, kMostPeakKib);
}

TEST_F(HostileTest, AFlippedBitOfTheHeaderGivesAnErrorOrARun) {
  const uint32_t seed = std::random_device()();
  std::mt19937 random(seed);
  for (const std::string& name : TinyModels()) {
    const std::string whole = ReadFile(TinyModel(name));
    const size_t header_bits = HeaderBytes(TinyModel(name)) * 8;
    ASSERT_GT(header_bits, 0u);
    const int flips = name == "tiny-llama" ? kFlips : kFlipsPerChild;
    for (int done = 0; done < flips; done += kFlipsPerChild) {
      std::vector<size_t> bits(kFlipsPerChild);
      for (size_t& bit : bits) bit = random() % header_bits;
      const ChildOutcome outcome =
          InChild({.address_space_bytes = 4 * kGiB, .seconds = 120}, [&](auto say) {
            for (const size_t bit : bits) {
              say(fmt::format("{}: bit {}", name, bit));
              std::string damaged = whole;
              damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
              WriteFile(Path(), damaged);
              Use(Path());
            }
          });
      EXPECT_TRUE(outcome.survived)
          << outcome.said << ", status " << outcome.status << ", seed " << seed;
#ifndef QUIRE_SHADOW_MEMORY
      EXPECT_LT(outcome.peak_kib, kMostPeakKib) << name << ", seed " << seed;
#endif
    }
  }
}

TEST_F(HostileTest, AnEnormousContextCommitsLittle) {
  for (const uint32_t length : {0x7fffffffu, 0x7ffffff0u, 0x40000000u, 0x08000000u}) {
    const ChildOutcome outcome = InChild({}, [&](auto say) {
      if (!TinyLlama({.context_length = static_cast<int>(length)}).Write(Path())) ::_exit(1);
      say(Use(Path()));
    });
    EXPECT_TRUE(outcome.survived) << length << ": " << outcome.status;
    EXPECT_EQ(outcome.said, "ran") << length;
#ifndef QUIRE_SHADOW_MEMORY
    EXPECT_LT(outcome.peak_kib, 100 * 1024) << length;
#endif
  }
}

#ifndef QUIRE_SHADOW_MEMORY
TEST_F(HostileTest, AContextBeyondTheAddressSpaceIsAnErrorThatSaysSo) {
  // The last one leaves room for the arena, but not for much more.
  const struct {
    uint32_t context_length;
    rlim_t address_space_bytes;
  } cases[] = {{0x7fffffff, 2 * kGiB},
               {0x40000000, 1 * kGiB},
               {0x00800000, 2 * kGiB},
               {0x7ffffff0, 512 * kGiB + kGiB / 4}};
  for (const auto& [context_length, address_space_bytes] : cases) {
    const ChildOutcome outcome =
        InChild({.address_space_bytes = address_space_bytes}, [&](auto say) {
          if (!TinyLlama({.context_length = static_cast<int>(context_length)}).Write(Path())) {
            ::_exit(1);
          }
          say(Use(Path(), {.num_threads = 1}));
        });
    EXPECT_TRUE(outcome.survived) << context_length << ": " << outcome.status;
    EXPECT_THAT(outcome.said, AnyOf(HasSubstr("context"), Eq("ran"))) << context_length;
  }
}

TEST_F(HostileTest, AnAddressSpaceTooSmallForTheThreadsIsSurvived) {
  const ChildOutcome outcome = InChild({.address_space_bytes = kGiB}, [&](auto say) {
    say(Use(TinyModel("tiny-llama"), {.num_threads = 250}));
  });
  EXPECT_TRUE(outcome.survived) << outcome.status;
  EXPECT_THAT(outcome.said, AnyOf(HasSubstr("memory"), Eq("ran")));
}
#endif

TEST_F(HostileTest, BytesAfterTheTensorsCostNothing) {
  // A sparse file: 8 GiB of zeros after the tensors, which the disk does not hold.
  ASSERT_TRUE(TinyLlama({.layers = {TinyLayer{}}}).Write(Path()));
  std::filesystem::resize_file(Path(), uint64_t{8} << 30);
  const ChildOutcome outcome = InChild({}, [&](auto say) { say(Use(Path())); });
  EXPECT_TRUE(outcome.survived) << outcome.status;
  EXPECT_FALSE(outcome.said.empty());
#ifndef QUIRE_SHADOW_MEMORY
  EXPECT_LT(outcome.peak_kib, 200 * 1024);
#endif
}

}  // namespace
}  // namespace quire::testing
