// Embeddings of SmolLM2 against float32 arithmetic on the same file
// (tests/oracles/embedding_goldens.py).
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>

#include "engine/engine_fixture.h"
#include "support/model_cache.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

constexpr const char* kFile = "SmolLM2-135M-Instruct.Q4_1.gguf";
// Quire quantises activations to eight bits, the oracle does not: the least measured is 0.9992.
constexpr double kLeastCosine = 0.998;

double Cosine(const std::vector<float>& embedding, const boost::json::array& golden) {
  if (embedding.size() != golden.size()) return 0;
  double product = 0;
  double squares = 0;
  double golden_squares = 0;
  for (size_t i = 0; i < embedding.size(); ++i) {
    const auto expected = golden[i].to_number<double>();
    product += embedding[i] * expected;
    squares += static_cast<double>(embedding[i]) * embedding[i];
    golden_squares += expected * expected;
  }
  EXPECT_NEAR(squares, 1, 1e-5);
  return product / std::sqrt(squares * golden_squares);
}

TEST(SmolLm2Embeddings, PointWhereTheFloat32OraclesDo) {
  if (!std::filesystem::exists(testing::CachedModel(kFile))) {
    GTEST_FAIL() << "`quire pull smollm2-135m-instruct` first";
  }
  const auto golden = boost::json::parse(
      ReadFile(std::string(QUIRE_TESTS_DIR) + "/golden/embeddings/smollm2-135m-instruct.json"));
  const auto engine = testing::MakeTestEngine(
      testing::CachedModel(kFile),
      {.runner = {.num_threads = 2, .context_length = 512, .kv_type = KvType::kF32}});
  for (const auto& sequence : golden.at("sequences").as_array()) {
    Request request;
    for (const auto& token : sequence.at("tokens").as_array()) {
      request.prompt.push_back(token.to_number<int32_t>());
    }
    for (const auto& [pooling, name] :
         {std::pair(Pooling::kMean, "mean"), std::pair(Pooling::kLast, "last")}) {
      request.embedding = pooling;
      const auto result = Generate(*engine, request);
      ASSERT_TRUE(result.ok()) << result.error().message;
      const double cosine = Cosine(result->embedding, sequence.at(name).as_array());
      RecordProperty(std::string(sequence.at("name").as_string()) + ", " + name,
                     std::to_string(cosine));
      EXPECT_GT(cosine, kLeastCosine) << sequence.at("name") << ", " << name;
    }
  }
}

}  // namespace
}  // namespace quire
