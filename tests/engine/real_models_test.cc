// The other real models of the catalogue, where they were pulled: each test says which it did not
// find.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>

#include "engine/engine_fixture.h"
#include "sampling/log_probs.h"
#include "support/model_cache.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

struct RealModel {
  std::string file;
  std::string golden;  // of tests/golden/logprobs
  std::string prompt;
  std::string answer;  // what a greedy continuation of the prompt holds
  double divergence;   // mean KL to float32 over the golden's rows, at most
};

void PrintTo(const RealModel& model, std::ostream* out) { *out << model.file; }

class RealModelTest : public ::testing::TestWithParam<RealModel> {
 protected:
  void SetUp() override {
    path_ = testing::CachedModel(GetParam().file);
    if (!std::filesystem::exists(path_)) GTEST_SKIP() << path_ << " was not pulled";
  }

  std::vector<int32_t> Continue(Engine& engine, int max_tokens) {
    auto result =
        Generate(engine, testing::GreedyRequest(
                             engine.model().tokenizer().Encode(GetParam().prompt, {}), max_tokens));
    EXPECT_TRUE(result.ok()) << result.error().message;
    text_ = result->choices[0].text;
    return result->choices[0].tokens;
  }

  std::filesystem::path path_;
  std::string text_;  // of the last continuation
};

TEST_P(RealModelTest, ContinuesSensiblyAndAlwaysTheSame) {
  const auto engine = testing::MakeTestEngine(path_, {.runner = {.num_threads = 2}});
  ASSERT_NE(engine, nullptr);
  const std::vector<int32_t> expected = Continue(*engine, 16);
  EXPECT_NE(text_.find(GetParam().answer), std::string::npos) << text_;
  const auto avx2 = testing::MakeTestEngine(
      path_,
      {.runner = {.kernels = std::string(AvailableKernels()[AvailableKernels().size() / 2]->name),
                  .num_threads = 5},
       .scheduler = {.max_batched_tokens = 3}});
  ASSERT_NE(avx2, nullptr);
  EXPECT_EQ(Continue(*avx2, 16), expected);
  // The plain program takes seconds a token.
  const auto reference =
      testing::MakeTestEngine(path_, {.runner = {.kernels = "reference", .num_threads = 2}});
  ASSERT_NE(reference, nullptr);
  EXPECT_EQ(Continue(*reference, 1)[0], expected[0]);
}

TEST_P(RealModelTest, PredictsWhatTheFloat32OracleDoes) {
  const auto runner = testing::MakeTestRunner(path_, {.num_threads = 2, .context_length = 1024});
  ASSERT_NE(runner, nullptr);
  const auto golden = boost::json::parse(
      ReadFile(std::string(QUIRE_TESTS_DIR) + "/golden/logprobs/" + GetParam().golden));
  double divergence = 0;
  int rows = 0;
  for (const auto& golden_sequence : golden.at("sequences").as_array()) {
    std::vector<int32_t> tokens;
    for (const auto& token : golden_sequence.at("tokens").as_array()) {
      tokens.push_back(token.to_number<int32_t>());
    }
    std::vector<int> positions;
    for (const auto& position : golden_sequence.at("positions").as_array()) {
      positions.push_back(position.at("position").to_number<int>());
    }
    const std::vector<float> logits = testing::LogitsAt(*runner, tokens, positions);
    size_t first = 0;
    for (const auto& position : golden_sequence.at("positions").as_array()) {
      const auto row = std::span(logits).subspan(first, runner->vocab_size());
      first += row.size();
      for (const auto& entry : position.at("top").as_array()) {
        const double expected = entry.at(1).to_number<double>();
        const auto got = ComputeLogProbs(row, 0, entry.at(0).to_number<int32_t>());
        ASSERT_TRUE(got.ok());
        divergence += std::exp(expected) * (expected - got->chosen.log_prob);
      }
      ++rows;
    }
  }
  ASSERT_GT(rows, 40);
  EXPECT_LT(divergence / rows, GetParam().divergence);
}

INSTANTIATE_TEST_SUITE_P(
    Catalogue, RealModelTest,
    ::testing::Values(
        RealModel{"SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct.json",
                  "The capital of France is", "Paris", 0.01},
        RealModel{"gemma-3-270m-q4_k_m.gguf", "gemma-3-270m.json", "Roses are red, violets are",
                  "blue", 0.01},
        RealModel{"qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "qwen2.5-coder-0.5b-instruct.json",
                  "def fibonacci(n):\n    if n <= 1:\n        return", "fibonacci", 0.01},
        RealModel{"qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "qwen2.5-coder-1.5b-instruct.json",
                  "def fibonacci(n):\n    if n <= 1:\n        return", "fibonacci", 0.01}));

}  // namespace
}  // namespace quire
