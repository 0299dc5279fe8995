// SmolLM2 from the model cache: a real file through the whole engine.
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/chat.h"
#include "engine/engine_fixture.h"
#include "support/model_cache.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

constexpr const char* kFile = "SmolLM2-135M-Instruct.Q4_1.gguf";

class SmolLm2Test : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(testing::CachedModel(kFile))) {
      GTEST_FAIL() << "`quire pull smollm2-135m-instruct` first";
    }
  }

  static std::unique_ptr<Engine> Make(RunnerOptions options, int chunk = 512) {
    return testing::MakeTestEngine(testing::CachedModel(kFile),
                                   {.runner = options, .scheduler = {.max_batched_tokens = chunk}});
  }

  static Choice Answer(Engine& engine, bool use_kv_cache = true, int max_tokens = 24) {
    const auto pieces =
        RenderChat(engine.model(), std::vector<Message>{{"user", "Why is the sky blue?"}});
    EXPECT_TRUE(pieces.ok());
    Request request = testing::GreedyRequest(engine.EncodePrompt(*pieces, ""), max_tokens);
    request.use_kv_cache = use_kv_cache;
    auto result = Generate(engine, request);
    EXPECT_TRUE(result.ok()) << result.error().message;
    return std::move(result->choices[0]);
  }
};

TEST_F(SmolLm2Test, AnswersSensibly) {
  const auto engine = Make({.num_threads = 2});
  const Choice result = Answer(*engine, /*use_kv_cache=*/true, 60);
  EXPECT_NE(result.text.find("scatter"), std::string::npos) << result.text;
}

TEST_F(SmolLm2Test, TheAnswerDependsOnNothingButThePrompt) {
  const auto engine = Make({.num_threads = 2});
  const std::vector<int32_t> expected = Answer(*engine).tokens;
  EXPECT_EQ(Answer(*Make({.num_threads = 1}, 5)).tokens, expected);
  EXPECT_EQ(Answer(*Make({.num_threads = 5}, 1)).tokens, expected);
  for (const KernelSet* set : AvailableKernels()) {
    if (set->name == "reference") continue;  // seconds a token; a short answer below
    EXPECT_EQ(Answer(*Make({.kernels = std::string(set->name), .num_threads = 2})).tokens, expected)
        << set->name;
  }
  const auto reference = Make({.kernels = "reference", .num_threads = 2});
  const std::vector<int32_t> beginning(expected.begin(), expected.begin() + 2);
  EXPECT_EQ(Answer(*reference, true, 2).tokens, beginning);
  EXPECT_EQ(Answer(*engine, /*use_kv_cache=*/false, 8).tokens,
            std::vector<int32_t>(expected.begin(), expected.begin() + 8));
}

TEST_F(SmolLm2Test, ThePackCacheGivesTheSameModelBack) {
  ScratchDirectory directory;
  RunnerOptions options{.num_threads = 2};
  options.load.pack_directory = directory.path() / "packs";
  std::vector<int32_t> first;
  Digest digest;
  {
    const auto engine = Make(options);
    EXPECT_FALSE(engine->model().came_from_pack_cache());
    first = Answer(*engine).tokens;
    digest = engine->model().digest();
  }
  const auto engine = Make(options);
  EXPECT_TRUE(engine->model().came_from_pack_cache());
  EXPECT_EQ(engine->model().digest(), digest);
  EXPECT_EQ(Answer(*engine).tokens, first);
}

TEST_F(SmolLm2Test, ATruncatedFileIsRefusedWhereverItIsCut) {
  const std::string whole = ReadFile(testing::CachedModel(kFile));
  ScratchDirectory directory;
  const std::filesystem::path path = directory.path() / "cut.gguf";
  WriteFile(path, whole);
  // From the end to the front, so that the file only ever shrinks: 200 places.
  for (int i = 200; i-- > 0;) {
    std::filesystem::resize_file(path, whole.size() * i / 200);
    const auto engine = ModelRunner::Create(path, {.num_threads = 1});
    ASSERT_FALSE(engine.ok()) << i;
    EXPECT_NE(engine.error().message.find("cut.gguf"), std::string::npos);
  }
}

}  // namespace
}  // namespace quire
