// Embeddings of prompts: the numbers, by hand and against the model's own hidden states, and that
// they depend on nothing but the prompt.
#include <cmath>
#include <functional>

#include "engine/requests_fixture.h"
#include "support/tiny_llama.h"

namespace quire {
namespace {

using testing::kRequestsModel;
using testing::RunOne;
using testing::RunTogether;

class EmbeddingsTest : public testing::RequestsFixture {
 protected:
  static Request Embedding(std::vector<int32_t> prompt, Pooling pooling = Pooling::kMean) {
    return {.prompt = std::move(prompt), .embedding = pooling};
  }

  static std::vector<float> EmbeddingOf(Engine& engine, std::vector<int32_t> prompt,
                                        Pooling pooling = Pooling::kMean) {
    const RequestResult result = RunOne(engine, Embedding(std::move(prompt), pooling));
    EXPECT_TRUE(result.status.ok());
    EXPECT_FALSE(result.embedding.empty());
    return result.embedding;
  }
};

TEST_F(EmbeddingsTest, TheMeanAndTheLastStateAreScaledToLengthOne) {
  // The state after token i is the i-th unit vector times the square root of the width.
  const auto engine = Alphabet({0, 2, 3, 4, 0});
  const auto expect = [](const std::vector<float>& embedding, std::vector<double> direction) {
    double squares = 0;
    for (const double number : direction) squares += number * number;
    ASSERT_EQ(embedding.size(), direction.size());
    for (size_t i = 0; i < direction.size(); ++i) {
      EXPECT_NEAR(embedding[i], direction[i] / std::sqrt(squares), 1e-6) << i;
    }
  };
  expect(EmbeddingOf(*engine, {1, 2, 2, 4}), {0, 1, 2, 0, 1, 0});
  expect(EmbeddingOf(*engine, {3}), {0, 0, 0, 1, 0, 0});
  expect(EmbeddingOf(*engine, {1, 2, 2, 4}, Pooling::kLast), {0, 0, 0, 0, 1, 0});
}

TEST_F(EmbeddingsTest, TheStatesAreThoseThatTheLogitsComeFrom) {
  const auto runner = testing::MakeTestRunner(testing::TinyModel(kRequestsModel));
  const std::vector<int32_t> tokens = Ascending(21);
  const auto width = static_cast<size_t>(runner->hidden_width());
  std::vector<float> states(tokens.size() * width);
  std::vector<int> rows(tokens.size());
  std::iota(rows.begin(), rows.end(), 0);
  BlockTables tables = runner->cache().AcquirePrivate();
  ASSERT_TRUE(runner->cache().Reserve(tables, 21));
  const StepItem item{.num_tokens = 21, .tokens = tokens, .block_tables = tables.views()};
  ASSERT_TRUE(runner->Forward({&item, 1}, {}, {}, rows, states).ok());
  std::vector<double> sum(width, 0.0);
  for (size_t i = 0; i < states.size(); ++i) sum[i % width] += static_cast<double>(states[i]);
  double squares = 0;
  for (const double number : sum) squares += number * number;
  const auto engine = Tiny();
  const std::vector<float> embedding = EmbeddingOf(*engine, tokens);
  ASSERT_EQ(embedding.size(), width);
  for (size_t i = 0; i < width; ++i) {
    EXPECT_EQ(embedding[i], static_cast<float>(sum[i] / std::sqrt(squares))) << i;
  }
}

TEST_F(EmbeddingsTest, BitsDependOnThePromptAlone) {
  for (const std::string name : {"tiny-llama", "tiny-gemma3", "tiny-classic"}) {
    for (const Pooling pooling : {Pooling::kMean, Pooling::kLast}) {
      const auto make = [&](int threads, int chunk) {
        return testing::MakeTestEngine(
            testing::TinyModel(name),
            {.runner = {.num_threads = threads, .context_length = 128, .num_sequences = 16},
             .scheduler = {.max_batched_tokens = chunk}});
      };
      const auto plain = make(1, 512);
      std::vector<std::vector<float>> alone;
      for (int i = 0; i < 4; ++i) {
        alone.push_back(EmbeddingOf(*plain, Ascending(40 + 17 * i, i % 2), pooling));
      }
      // After an answer to the same prompt, whose blocks are cached.
      RunOne(*plain, Sampled(Ascending(40, 0), 3));
      EXPECT_EQ(EmbeddingOf(*plain, Ascending(40, 0), pooling), alone[0]) << name;
      for (const auto& [threads, chunk] : {std::pair(1, 7), std::pair(3, 64)}) {
        const auto engine = make(threads, chunk);
        std::vector<Request> requests;
        for (int i = 0; i < 4; ++i) {
          requests.push_back(Embedding(Ascending(40 + 17 * i, i % 2), pooling));
          requests.push_back(Sampled(Ascending(20 + i, i), 5));
        }
        const std::vector<RequestResult> results = RunTogether(*engine, requests);
        for (size_t i = 0; i < 4; ++i) EXPECT_EQ(results[2 * i].embedding, alone[i]) << name;
      }
    }
  }
}

TEST_F(EmbeddingsTest, APreemptedPromptIsPooledOnce) {
  const std::vector<float> expected = EmbeddingOf(*Tiny(), Ascending(80));
  // Four answers of one block each, which take a second one while half of the prompt is computed.
  const std::filesystem::path path = testing::TinyModel(kRequestsModel);
  const auto engine = testing::MakeTestEngine(
      path, {.runner = {.context_length = 128, .kv_bytes = testing::PoolBytes(path, 10)},
             .scheduler = {.max_batched_tokens = 12, .admission_reserve = 0}});
  std::vector<Request> requests;
  for (int i = 0; i < 4; ++i) requests.push_back(Sampled(Ascending(9, i), 30));
  requests.push_back(Embedding(Ascending(80)));
  const std::vector<RequestResult> results = RunTogether(*engine, requests);
  EXPECT_GE(engine->batch().counters().preemptions, 1);
  // More rows than without: 4 * (9 + 29) + 80.
  EXPECT_GT(engine->counters().computed_tokens, 232);
  EXPECT_EQ(results[4].embedding, expected);
  for (size_t i = 0; i < 4; ++i) {
    testing::ExpectSameChoices(results[i], RunOne(*Tiny(), requests[i]));
  }
}

TEST_F(EmbeddingsTest, NothingIsSampledOrReadFromTheCacheAndThePromptStaysCached) {
  const auto engine = Tiny();
  for (int i = 0; i < 2; ++i) {
    const RequestResult result = RunOne(*engine, Embedding(Ascending(64)));
    EXPECT_TRUE(result.choices.empty());
    EXPECT_EQ(result.completion_tokens(), 0);
    EXPECT_EQ(result.prompt_tokens, 64);
    EXPECT_EQ(result.cached_tokens, 0);
    EXPECT_EQ(result.first_token_ms, 0);
    EXPECT_GT(result.total_ms, 0);
  }
  EXPECT_EQ(engine->counters().generated_tokens, 0);
  EXPECT_EQ(engine->counters().prompt_tokens, 128);
  EXPECT_EQ(engine->counters().cached_tokens, 0);
  EXPECT_EQ(engine->counters().requests_finished, 2);
  EXPECT_EQ(RunOne(*engine, Sampled(Ascending(64), 2)).cached_tokens, 63);
  Request salted = Embedding(Ascending(64));
  salted.use_kv_cache = false;
  salted.cache_salt = "other";
  EXPECT_EQ(RunOne(*engine, salted).embedding, EmbeddingOf(*engine, Ascending(64)));
  Request answer = Sampled(Ascending(64), 2);
  answer.cache_salt = "other";
  EXPECT_EQ(RunOne(*engine, answer).cached_tokens, 0);
}

TEST_F(EmbeddingsTest, APromptMayFillTheContextAndNoMore) {
  const auto engine = Tiny();
  EXPECT_EQ(EmbeddingOf(*engine, Ascending(128)).size(),
            static_cast<size_t>(engine->runner().hidden_width()));
  const auto refused = engine->Submit(Embedding(Ascending(129)));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kContextLength);
  for (const char* number : {"129", "128"}) {
    EXPECT_NE(refused.error().message.find(number), std::string::npos) << refused.error().message;
  }
}

TEST_F(EmbeddingsTest, WhatAsksForAnAnswerBesideItIsRefusedByName) {
  const auto engine = Tiny();
  Request beams = Embedding({1});
  beams.beams.width = 2;
  Request logprobs = Embedding({1});
  logprobs.prompt_logprobs = 1;
  for (const auto& [request, name] :
       {std::pair(beams, "beam_width"), std::pair(logprobs, "prompt_logprobs")}) {
    const auto refused = engine->Submit(request);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.error().message.find(name), std::string::npos) << refused.error().message;
  }
}

TEST_F(EmbeddingsTest, AnEndFromOutsideIsAnErrorThatSaysHow) {
  const auto engine = Tiny(/*num_blocks=*/10, /*chunk=*/8);
  Request request = Embedding(Ascending(60));
  for (const bool times_out : {false, true}) {
    if (times_out) request.timeout_ms = 1e-6;
    std::vector<RequestResult> ends;
    const auto id = engine->Submit(
        request, {.on_finish = [&](RequestResult result) { ends.push_back(std::move(result)); }});
    ASSERT_TRUE(id.ok());
    engine->Step();
    if (!times_out) engine->Abort(*id);
    testing::RunChecked(*engine);
    ASSERT_EQ(ends.size(), 1u);
    ASSERT_FALSE(ends[0].status.ok());
    EXPECT_EQ(ends[0].status.error().code, ErrorCode::kInterrupted);
    EXPECT_NE(ends[0].status.error().message.find(times_out ? "timeout" : "abort"),
              std::string::npos);
    EXPECT_TRUE(ends[0].embedding.empty());
  }
}

TEST_F(EmbeddingsTest, OneThatCannotBeComputedLeavesTheOthersAlone) {
  testing::TinyLlama model({});
  // Token 9 makes the first norm overflow.
  testing::TinyTensor& embedding = model.tensor("token_embd.weight");
  for (size_t i = 0; i < 64; ++i) embedding.SetValue(9 * 64 + i, 3e38f);
  ASSERT_TRUE(model.Write(Path()));
  const auto engine = testing::MakeTestEngine(Path());
  const std::vector<int32_t> good{1, 2, 3, 4};
  const auto results =
      RunTogether(*engine, {Embedding(good), Embedding({1, 9, 3}), Embedding({5, 6})});
  ASSERT_FALSE(results[1].status.ok());
  EXPECT_EQ(results[1].status.error().code, ErrorCode::kNumeric);
  EXPECT_EQ(results[0].embedding, EmbeddingOf(*engine, good));
  EXPECT_EQ(results[2].embedding, EmbeddingOf(*engine, {5, 6}));
}

}  // namespace
}  // namespace quire
