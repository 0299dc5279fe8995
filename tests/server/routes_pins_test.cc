// Pins through their routes, and that tenants do not see one another's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "server/routes/routes.h"
#include "server/routes_rig.h"

namespace quire {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;
using testing::RigAnswer;
using testing::RoutesRig;

constexpr const char* kA = "sk-key-of-a";
constexpr const char* kB = "sk-key-of-b";
constexpr const char* kPoor = "sk-key-of-poor";
constexpr const char* kAdmin = "sk-key-of-admin";

Tenants Keys() {
  return Tenants::FromJson(R"({"keys": [
      {"key": "sk-key-of-a", "name": "a"},
      {"key": "sk-key-of-b", "name": "b"},
      {"key": "sk-key-of-poor", "name": "poor", "kv_quota": "1B"},
      {"key": "sk-key-of-admin", "name": "admin", "admin": true}]})")
      .value();
}

class PinRoutesTest : public ::testing::Test {
 protected:
  // 40 tokens.
  static std::string Body(const std::string& more = "") {
    std::string text;
    for (int i = 0; i < 20; ++i) text += "bc";
    return R"({"prompt": ")" + text + "\"" + more + "}";
  }
  json::object Ask(std::string_view method, const std::string& path, std::string_view key,
                   const std::string& body = "", int status = 200) {
    const RigAnswer answer = rig_.Ask(method, path, body, key);
    EXPECT_EQ(answer.status, status) << answer.body;
    json::error_code error;
    const json::value value = json::parse(answer.body, error);
    return value.is_object() ? value.get_object() : json::object();
  }
  std::string IdOf(const json::object& pin) { return std::string(pin.at("id").as_string()); }
  size_t NumPins(std::string_view key) {
    return Ask("GET", "/quire/pins", key).at("data").as_array().size();
  }
  int64_t UsedBlocks() {
    // Goes through the engine's thread, which has then told of what was before.
    Ask("GET", "/quire/plan", kAdmin);
    return Ask("GET", "/quire/cache", kAdmin).at("blocks").at("used").as_int64();
  }

  RoutesRig rig_{{.tenants = Keys()}};
};

TEST_F(PinRoutesTest, APrefixIsComputedAndStaysUntilItIsDropped) {
  const json::object pin =
      Ask("POST", "/quire/pins", kA, Body(R"(, "seconds": 60, "label": "system prompt")"));
  EXPECT_EQ(pin.at("tokens"), 40);
  EXPECT_EQ(pin.at("blocks"), 3);
  EXPECT_EQ(pin.at("label"), "system prompt");
  EXPECT_EQ(pin.at("version"), 1);
  EXPECT_GT(pin.at("bytes").as_int64(), 0);
  EXPECT_GT(pin.at("expires_in_seconds").as_double(), 50);
  EXPECT_LE(pin.at("expires_in_seconds").as_double(), 60);
  EXPECT_EQ(UsedBlocks(), 3);
  EXPECT_EQ(Ask("GET", "/quire/cache", kAdmin).at("pinned").at("blocks"), 3);

  const json::object explained = Ask("POST", "/quire/explain", kA, Body());
  EXPECT_EQ(explained.at("prompts").at(0).at("cached_tokens"), 39);

  const json::object list = Ask("GET", "/quire/pins", kA);
  ASSERT_EQ(list.at("data").as_array().size(), 1u);
  EXPECT_EQ(list.at("data").at(0).at("id"), pin.at("id"));

  const json::object dropped = Ask("DELETE", "/quire/pins/" + IdOf(pin), kA);
  EXPECT_EQ(dropped.at("deleted"), true);
  EXPECT_EQ(NumPins(kA), 0u);
  EXPECT_EQ(UsedBlocks(), 0);
}

TEST_F(PinRoutesTest, AChatIsPinnedAsItsTemplateRendersIt) {
  const json::object pin = Ask("POST", "/quire/pins", kA,
                               R"({"messages": [{"role": "user", "content": "bcbcbc"}],
                                   "add_generation_prompt": false})");
  EXPECT_EQ(pin.at("tokens"), 8);
}

TEST_F(PinRoutesTest, ATenantSeesAndDropsItsOwnAlone) {
  const json::object pin = Ask("POST", "/quire/pins", kA, Body());
  for (const std::string_view other : {kB, kAdmin}) {
    EXPECT_EQ(NumPins(other), 0u);
    const json::object refused =
        Ask("DELETE", "/quire/pins/" + IdOf(pin), other, "", /*status=*/404);
    EXPECT_EQ(refused.at("error").at("code"), "pin_not_found");
    // Nor does it find what is pinned.
    const json::object explained = Ask("POST", "/quire/explain", other, Body());
    EXPECT_EQ(explained.at("prompts").at(0).at("cached_tokens"), 0);
  }
  EXPECT_EQ(NumPins(kA), 1u);
}

TEST_F(PinRoutesTest, AnIdTellsNothingOfOthersPins) {
  const std::string first = IdOf(Ask("POST", "/quire/pins", kA, Body()));
  Ask("POST", "/quire/pins", kB, Body());
  const std::string second = IdOf(Ask("POST", "/quire/pins", kA, Body()));
  EXPECT_THAT(first, ::testing::MatchesRegex("pin_[0-9a-f]+"));
  EXPECT_NE(first, second);
  Ask("DELETE", "/quire/pins/" + first, kA);
  Ask("DELETE", "/quire/pins/" + first, kA, "", /*status=*/404);
  EXPECT_EQ(NumPins(kA), 1u);
  EXPECT_EQ(NumPins(kB), 1u);
}

TEST_F(PinRoutesTest, APinBeyondTheQuotaIsRefusedWithTheNumbers) {
  const RigAnswer answer = rig_.Ask("POST", "/quire/pins", Body(), kPoor);
  EXPECT_GE(answer.status, 400);
  EXPECT_LT(answer.status, 500);
  EXPECT_EQ(NumPins(kPoor), 0u);
  EXPECT_EQ(UsedBlocks(), 0);
}

TEST_F(PinRoutesTest, WhatIsNoPinIsRefusedByName) {
  for (const auto& [more, param] :
       {std::pair{R"(, "seconds": 0)", "seconds"}, std::pair{R"(, "seconds": -1)", "seconds"},
        std::pair{R"(, "seconds": "60")", "seconds"}, std::pair{R"(, "seconds": 1e300)", "seconds"},
        std::pair{R"(, "label": 3)", "label"}}) {
    const json::object refused = Ask("POST", "/quire/pins", kA, Body(more), /*status=*/400);
    EXPECT_EQ(refused.at("error").at("param"), param);
  }
  const json::object several =
      Ask("POST", "/quire/pins", kA, R"({"prompt": ["a", "b"]})", /*status=*/400);
  EXPECT_EQ(several.at("error").at("param"), "prompt");
  EXPECT_EQ(Ask("POST", "/quire/pins", kA,
                R"({"prompt": "a", "label": ")" + std::string(257, 'x') + "\"}", 400)
                .at("error")
                .at("param"),
            "label");
  EXPECT_EQ(NumPins(kA), 0u);
}

TEST_F(PinRoutesTest, AnswersNeverShowAPromptsText) {
  Ask("POST", "/quire/pins", kA, Body());
  EXPECT_THAT(rig_.Ask("GET", "/quire/pins", "", kA).body, ::testing::Not(HasSubstr("bcbc")));
}

}  // namespace
}  // namespace quire
