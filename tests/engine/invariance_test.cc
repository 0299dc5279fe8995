// The numerics contract through whole models: what must not change a bit, does not.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "engine/engine_fixture.h"

namespace quire {
namespace {

std::vector<int32_t> RandomTokens(int count, int vocab_size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % vocab_size);
  return tokens;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class InvarianceTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Engine> MakeEngine(EngineOptions options) {
    return testing::MakeTestEngine(testing::TinyModel(GetParam()), options);
  }
  // 150 tokens: two spans of keys, ten blocks, beyond the tiny windows.
  std::vector<int32_t> Tokens() { return RandomTokens(150, 300, 7); }
};

TEST_P(InvarianceTest, EveryKernelSetGivesTheSameBits) {
  const auto reference = MakeEngine({.kernels = "reference"});
  const std::vector<float> expected = testing::AllLogits(*reference, Tokens());
  for (const KernelSet* set : AvailableKernels()) {
    const auto engine = MakeEngine({.kernels = std::string(set->name)});
    EXPECT_TRUE(SameBits(testing::AllLogits(*engine, Tokens()), expected)) << set->name;
  }
}

TEST_P(InvarianceTest, TheNumberOfThreadsChangesNothing) {
  const auto one = MakeEngine({.num_threads = 1});
  const std::vector<float> expected = testing::AllLogits(*one, Tokens());
  for (const int threads : {2, 5}) {
    const auto engine = MakeEngine({.num_threads = threads});
    EXPECT_TRUE(SameBits(testing::AllLogits(*engine, Tokens()), expected)) << threads;
  }
}

TEST_P(InvarianceTest, ChunksOfAPromptChangeNothing) {
  const auto engine = MakeEngine({});
  const std::vector<int32_t> tokens = Tokens();
  const std::vector<float> expected = testing::AllLogits(*engine, tokens);
  for (const int chunk : {1, 3, 7, 16, 64}) {
    Sequence sequence = engine->NewSequence();
    sequence.SetTokens(tokens);
    std::vector<float> rows(expected.size());
    for (size_t done = 0; done < tokens.size();) {
      const int count = std::min<int>(chunk, static_cast<int>(tokens.size() - done));
      const auto out = std::span(rows).subspan(done * engine->vocab_size(),
                                               static_cast<size_t>(count) * engine->vocab_size());
      ASSERT_TRUE(engine->ComputeRows(sequence, count, count, out).ok());
      done += count;
    }
    EXPECT_TRUE(SameBits(rows, expected)) << "chunks of " << chunk;
  }
}

TEST_P(InvarianceTest, RewindingAndComputingAgainChangesNothing) {
  const auto engine = MakeEngine({});
  const std::vector<int32_t> tokens = Tokens();
  const std::vector<float> expected = testing::AllLogits(*engine, tokens);
  Sequence sequence = engine->NewSequence();
  // Another text first, which shares 40 tokens.
  std::vector<int32_t> other = RandomTokens(150, 300, 8);
  std::copy_n(tokens.begin(), 40, other.begin());
  sequence.SetTokens(other);
  ASSERT_TRUE(engine->ComputeRows(sequence, 150, 0, {}).ok());
  sequence.SetTokens(tokens);
  EXPECT_EQ(sequence.num_computed(), 40);
  std::vector<float> rows(size_t{110} * engine->vocab_size());
  ASSERT_TRUE(engine->ComputeRows(sequence, 110, 110, rows).ok());
  const std::vector<float> tail(expected.end() - rows.size(), expected.end());
  EXPECT_TRUE(SameBits(rows, tail));
}

TEST_P(InvarianceTest, WithoutAKvCacheTheAnswerIsTheSame) {
  const auto engine = MakeEngine({.prefill_chunk = 64});
  const auto answer = [&](bool use_kv_cache) {
    Sequence sequence = engine->NewSequence();
    sequence.SetTokens(RandomTokens(20, 300, 9));
    GenerationOptions options{.sampling = {.temperature = 1.0f, .seed = 11, .logprobs = 5},
                              .max_tokens = 24,
                              .stops = {},
                              .stop_token_ids = {},
                              .ignore_end_of_text = true,
                              .use_kv_cache = use_kv_cache};
    auto result = Generate(*engine, sequence, options, {});
    EXPECT_TRUE(result.ok());
    return std::move(result).value();
  };
  const GenerationResult cached = answer(true);
  const GenerationResult recomputed = answer(false);
  EXPECT_EQ(cached.tokens, recomputed.tokens);
  ASSERT_EQ(cached.log_probs.size(), recomputed.log_probs.size());
  for (size_t i = 0; i < cached.log_probs.size(); ++i) {
    EXPECT_EQ(cached.log_probs[i].chosen.log_prob, recomputed.log_probs[i].chosen.log_prob);
  }
}

INSTANTIATE_TEST_SUITE_P(TinyModels, InvarianceTest, ::testing::ValuesIn(testing::TinyModels()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace quire
