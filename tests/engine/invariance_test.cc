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
  std::unique_ptr<ModelRunner> MakeRunner(RunnerOptions options) {
    return testing::MakeTestRunner(testing::TinyModel(GetParam()), options);
  }
  // 150 tokens: two spans of keys, ten blocks, beyond the tiny windows.
  std::vector<int32_t> Tokens() { return RandomTokens(150, 300, 7); }
};

TEST_P(InvarianceTest, EveryKernelSetGivesTheSameBits) {
  const auto reference = MakeRunner({.kernels = "reference"});
  const std::vector<float> expected = testing::AllLogits(*reference, Tokens());
  for (const KernelSet* set : AvailableKernels()) {
    const auto runner = MakeRunner({.kernels = std::string(set->name)});
    EXPECT_TRUE(SameBits(testing::AllLogits(*runner, Tokens()), expected)) << set->name;
  }
}

TEST_P(InvarianceTest, TheNumberOfThreadsChangesNothing) {
  const auto one = MakeRunner({.num_threads = 1});
  const std::vector<float> expected = testing::AllLogits(*one, Tokens());
  for (const int threads : {2, 5}) {
    const auto runner = MakeRunner({.num_threads = threads});
    EXPECT_TRUE(SameBits(testing::AllLogits(*runner, Tokens()), expected)) << threads;
  }
}

TEST_P(InvarianceTest, ChunksOfAPromptChangeNothing) {
  const std::vector<float> expected = testing::AllLogits(*MakeRunner({}), Tokens());
  for (const int chunk : {1, 3, 7, 16, 64}) {
    const auto runner = MakeRunner({.max_batched_tokens = chunk});
    EXPECT_TRUE(SameBits(testing::AllLogits(*runner, Tokens()), expected)) << "chunks of " << chunk;
  }
}

TEST_P(InvarianceTest, WithoutAKvCacheTheAnswerIsTheSame) {
  const auto engine = testing::MakeTestEngine(testing::TinyModel(GetParam()),
                                              {.scheduler = {.max_batched_tokens = 64}});
  ASSERT_NE(engine, nullptr);
  const auto answer = [&](bool use_kv_cache) {
    Request request{.prompt = RandomTokens(20, 300, 9), .max_tokens = 24};
    request.sampling = {.temperature = 1.0f, .seed = 11, .logprobs = 5};
    request.ignore_end_of_text = true;
    request.use_kv_cache = use_kv_cache;
    auto result = Generate(*engine, request);
    EXPECT_TRUE(result.ok());
    return std::move(result->choices[0]);
  };
  const Choice cached = answer(true);
  const Choice recomputed = answer(false);
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
