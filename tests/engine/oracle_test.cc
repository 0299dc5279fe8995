// The tiny models against log-probabilities that PyTorch computed in float32
// (tests/oracles/make_tiny_models.py).
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>

#include "engine/engine_fixture.h"
#include "sampling/log_probs.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

// The goldens are rounded to five decimals; the rest is float32 in two orders of summation.
constexpr double kFloat32Tolerance = 1e-3;
// Keys and values rounded to 11 bits.
constexpr double kFloat16Tolerance = 3e-2;

std::vector<int32_t> TokensOf(const boost::json::object& sequence, int64_t vocab_size) {
  std::vector<int32_t> tokens;
  if (const auto* formula = sequence.if_contains("formula")) {
    const auto number = [&](const char* key) { return formula->at(key).to_number<int64_t>(); };
    for (int64_t i = 0; i < number("count"); ++i) {
      tokens.push_back(
          static_cast<int32_t>((i * number("multiplier") + number("offset")) % vocab_size));
    }
    return tokens;
  }
  for (const auto& token : sequence.at("tokens").as_array()) {
    tokens.push_back(token.to_number<int32_t>());
  }
  return tokens;
}

class OracleTest : public ::testing::TestWithParam<std::string> {};

double LargestDifference(ModelRunner& runner, const boost::json::object& golden_sequence) {
  const std::vector<int32_t> tokens = TokensOf(golden_sequence, runner.vocab_size());
  std::vector<int> positions;
  for (const auto& golden : golden_sequence.at("positions").as_array()) {
    positions.push_back(golden.at("position").to_number<int>());
  }
  const std::vector<float> logits = testing::LogitsAt(runner, tokens, positions);
  double largest = 0;
  size_t first = 0;
  for (const auto& golden : golden_sequence.at("positions").as_array()) {
    const auto row = std::span(logits).subspan(first, runner.vocab_size());
    first += row.size();
    for (const auto& entry : golden.at("top").as_array()) {
      const auto result = ComputeLogProbs(row, 0, entry.at(0).to_number<int32_t>());
      if (!result.ok()) ADD_FAILURE() << result.error().message;
      largest =
          std::max(largest, std::abs(result->chosen.log_prob - entry.at(1).to_number<double>()));
    }
  }
  return largest;
}

void CompareWithGoldens(const std::string& name, KvType kv_type, double tolerance) {
  const auto golden = boost::json::parse(
      ReadFile(std::string(QUIRE_TESTS_DIR) + "/golden/logprobs/" + name + ".json"));
  const auto runner = testing::MakeTestRunner(testing::TinyModel(name), {.kv_type = kv_type});
  ASSERT_NE(runner, nullptr);
  size_t num_sequences = 0;
  for (const auto& sequence : golden.at("sequences").as_array()) {
    EXPECT_LT(LargestDifference(*runner, sequence.as_object()), tolerance)
        << "sequence " << num_sequences;
    ++num_sequences;
  }
  EXPECT_GT(num_sequences, 0u);
}

TEST_P(OracleTest, LogProbabilitiesAreThoseOfTheFloat32Oracle) {
  CompareWithGoldens(GetParam(), KvType::kF32, kFloat32Tolerance);
}

TEST_P(OracleTest, HalfPrecisionKeysAndValuesCostLittle) {
  CompareWithGoldens(GetParam(), KvType::kF16, kFloat16Tolerance);
}

INSTANTIATE_TEST_SUITE_P(TinyModels, OracleTest, ::testing::ValuesIn(testing::TinyModels()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace quire
