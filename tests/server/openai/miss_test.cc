// What usage says of tiers, and why more was not cached.
#include "server/openai/miss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "server/openai/byte_tokenizer.h"
#include "server/openai/response.h"
#include "server/openai/usage.h"

namespace quire {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;
using ::testing::Not;

class OpenAiMiss : public BodyTest {
 protected:
  // Of a prompt "ab" that was not found.
  json::object Written(const PrefixMiss& miss) {
    std::string text;
    JsonWriter writer(text);
    WriteMiss(miss, std::vector<int32_t>{kBos, kAb}, *tokenizer_, writer);
    return json::parse(text).as_object();
  }
  json::value Quire(std::vector<PromptAnswer> answers) {
    return json::parse(ResponseBody(Completion(R"("quire":true)"), answers, *tokenizer_,
                                    {.id = "cmpl-1", .model = "tiny", .created = 7}))
        .at("usage");
  }
  static PromptAnswer Cached(int tokens, CachedTokens by_tier, double tier_wait_ms = 0) {
    PromptAnswer answer{.prompt = {kBos, kAb}, .num_added = 1};
    answer.result.prompt_tokens = 100;
    answer.result.cached_tokens = tokens;
    answer.result.cached_by_tier = by_tier;
    answer.result.tier_wait_ms = tier_wait_ms;
    answer.result.choices.push_back({.text = "!", .tokens = {kAb}});
    return answer;
  }
};

TEST_F(OpenAiMiss, SaysWhatLoadingAndComputingWouldTake) {
  const PrefixMiss miss{.reason = MissReason::kCheaperToCompute,
                        .position = 1,
                        .tier = "disk",
                        .load_ms = 12.3456789,
                        .compute_ms = 3};
  EXPECT_EQ(Written(miss), json::parse(R"({
      "reason":"cheaper_to_compute",
      "message":"on disk, cheaper to compute: 3 ms, loading takes 12.3 ms",
      "position":1,"prompt_text":"ab","tier":"disk","load_ms":12.346,"compute_ms":3.0})"));
}

TEST_F(OpenAiMiss, NamesTheFaultAndTheIngredient) {
  EXPECT_EQ(Written({.reason = MissReason::kTierFault, .tier = "remote", .detail = "checksum"}),
            json::parse(R"({"reason":"tier_fault","position":0,"prompt_text":"<bos>ab",
      "message":"in the remote tier, and of no use: checksum","tier":"remote",
      "detail":"checksum"})"));
  EXPECT_EQ(Written({.reason = MissReason::kOtherModel, .tier = "disk", .detail = "weights"}),
            json::parse(R"({"reason":"other_model","position":0,"prompt_text":"<bos>ab",
      "message":"on disk, but of another model: weights","tier":"disk","detail":"weights"})"));
}

TEST_F(OpenAiMiss, TellsWhyATierIsDownToOperatorsAlone) {
  const PrefixMiss miss{.reason = MissReason::kTierDown,
                        .tier = "remote",
                        .detail = "10.0.0.7:6379: connection refused",
                        .down_for_ms = 4'200};
  EXPECT_EQ(Written(miss), json::parse(R"({"reason":"tier_down","position":0,
      "prompt_text":"<bos>ab","message":"the remote tier has been down for 4.2 s","tier":"remote",
      "down_for_ms":4200.0})"));
  EXPECT_EQ(MissText(miss, MissReader::kOperator),
            "the remote tier has been down for 4.2 s: 10.0.0.7:6379: connection refused");
}

TEST_F(OpenAiMiss, HasALineForEveryReason) {
  for (int idx = 0; idx < kNumMissReasons; ++idx) {
    const PrefixMiss miss{.reason = static_cast<MissReason>(idx)};
    EXPECT_EQ(MissText(miss, MissReader::kRequester).empty(), idx == 0) << idx;
  }
  EXPECT_EQ(
      MissText({.reason = MissReason::kEvicted, .evicted_ms_ago = 250}, MissReader::kRequester),
      "evicted 250 ms ago");
  EXPECT_THAT(
      MissText({.reason = MissReason::kEvicted, .evicted_ms_ago = -1}, MissReader::kRequester),
      Not(HasSubstr("-")));
}

TEST_F(OpenAiMiss, AFaultyDetailIsStillUtf8) {
  const json::object written =
      Written({.reason = MissReason::kTierFault, .tier = "disk", .detail = "\xff\"\n"});
  EXPECT_EQ(written.at("detail"), "\xEF\xBF\xBD\"\n");
}

TEST_F(OpenAiMiss, UsagePartsCachedTokensByTier) {
  const json::value usage = Quire({Cached(90, {20, 40, 30}, 12.5)});
  EXPECT_EQ(usage.at("prompt_tokens_details").at("cached_tokens"), 90);
  EXPECT_EQ(usage.at("quire").at("cached_by_tier"),
            json::parse(R"({"memory":20,"disk":40,"remote":30})"));
  EXPECT_EQ(usage.at("quire").at("tier_wait_ms"), 12.5);
}

TEST_F(OpenAiMiss, UsageOfSeveralPromptsSumsTokensAndTakesTheLongestWait) {
  const json::value usage = Quire({Cached(50, {50, 0, 0}, 1), Cached(48, {0, 32, 16}, 9)});
  const json::value& quire = usage.at("quire");
  EXPECT_EQ(usage.at("prompt_tokens_details").at("cached_tokens"), 98);
  EXPECT_EQ(quire.at("cached_by_tier"), json::parse(R"({"memory":50,"disk":32,"remote":16})"));
  EXPECT_EQ(quire.at("tier_wait_ms"), 9.0);
  EXPECT_EQ(quire.at("prompts").at(1).at("cached_by_tier").at("disk"), 32);
  EXPECT_EQ(quire.at("prompts").at(0).at("tier_wait_ms"), 1.0);
}

TEST(PartedCachedTokens, SumUpToTheTotalWhateverTheTiersSay) {
  for (const CachedTokens& said :
       {CachedTokens{}, CachedTokens{20, 40, 30}, CachedTokens{0, 95, 95}, CachedTokens{-1, -5, 3},
        CachedTokens{500, 500, 500}}) {
    const CachedTokens parts = PartedCachedTokens({.cached_tokens = 90, .cached_by_tier = said});
    EXPECT_EQ(parts.sum(), 90);
    EXPECT_GE(parts.memory, 0);
    EXPECT_GE(parts.disk, 0);
    EXPECT_GE(parts.remote, 0);
  }
}

}  // namespace
}  // namespace quire
