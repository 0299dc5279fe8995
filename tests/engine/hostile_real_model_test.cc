// Flipped bits in the header of a real file: all that is read before its weights are.
#include <gtest/gtest.h>

#include <random>

#include "base/mapped_file.h"
#include "engine/hostile_fixture.h"
#include "formats/gguf.h"
#include "models/config.h"
#include "models/weight_plan.h"
#include "support/model_cache.h"
#include "support/scratch_directory.h"
#include "text/chat_template/chat_template.h"
#include "text/tokenizer.h"

namespace quire::testing {
namespace {

constexpr const char* kFile = "SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr int kFlips = 2000;
constexpr int kFlipsPerChild = 100;

std::string ReadAllButWeights(const std::filesystem::path& path) {
  const auto file = GgufFile::Open(path);
  if (!file.ok()) return file.error().message;
  const auto config = ReadModelConfig(*file);
  if (!config.ok()) return config.error().message;
  const auto plan = PlanWeights(*file, *config);
  if (!plan.ok()) return plan.error().message;
  const auto tokenizer = Tokenizer::FromGguf(*file);
  if (!tokenizer.ok()) return tokenizer.error().message;
  (*tokenizer)->Decode((*tokenizer)->Encode("A short text, 12345.", {}));
  const auto source = file->GetStringOr("tokenizer.chat_template", "");
  if (!source.ok()) return source.error().message;
  const auto parsed = ChatTemplate::Parse(*source);
  return parsed.ok() ? "read" : parsed.error().message;
}

TEST(HostileRealModel, AFlippedBitOfTheHeaderGivesAnErrorOrAModel) {
  const std::filesystem::path path = CachedModel(kFile);
  ASSERT_TRUE(std::filesystem::exists(path)) << "`quire pull smollm2-135m-instruct` first";
  std::string header;
  uint64_t size = 0;
  {
    const auto file = GgufFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto bytes = file->parts()[0].bytes();
    const std::byte* first = bytes.data() + bytes.size();
    for (const GgufTensor& tensor : file->tensors()) first = std::min(first, tensor.data.data());
    header.assign(reinterpret_cast<const char*>(bytes.data()),
                  static_cast<size_t>(first - bytes.data()));
    size = bytes.size();
  }
  // The weights are holes: only their size counts here.
  ScratchDirectory directory;
  const std::filesystem::path copy = directory.path() / "model.gguf";
  const uint32_t seed = std::random_device()();
  std::mt19937 random(seed);
  for (int done = 0; done < kFlips; done += kFlipsPerChild) {
    std::vector<size_t> bits(kFlipsPerChild);
    for (size_t& bit : bits) bit = random() % (header.size() * 8);
    const ChildOutcome outcome =
        InChild({.address_space_bytes = rlim_t{4} << 30, .seconds = 120}, [&](auto say) {
          for (const size_t bit : bits) {
            say(fmt::format("bit {}", bit));
            std::string damaged = header;
            damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
            WriteFile(copy, damaged);
            std::filesystem::resize_file(copy, size);
            ReadAllButWeights(copy);
          }
        });
    EXPECT_TRUE(outcome.survived) << outcome.said << ", status " << outcome.status << ", seed "
                                  << seed;
#ifndef QUIRE_SHADOW_MEMORY
    EXPECT_LT(outcome.peak_kib, 400 * 1024) << "seed " << seed;
#endif
  }
}

}  // namespace
}  // namespace quire::testing
