// Routes that compute no answer: models, tokens, health, and what is Quire's own.
#include "server/routes/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "server/routes_rig.h"

namespace quire {
namespace {

namespace json = boost::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RigAnswer;
using testing::RoutesRig;

constexpr const char* kA = "sk-key-of-a";
constexpr const char* kB = "sk-key-of-b";
constexpr const char* kFriend = "sk-friend-of-a";
constexpr const char* kAdmin = "sk-key-of-admin";

Tenants FourKeys() {
  return Tenants::FromJson(R"({"keys": [
      {"key": "sk-key-of-a", "name": "a", "group": "lab", "kv_quota": "1KiB"},
      {"key": "sk-key-of-b", "name": "b"},
      {"key": "sk-friend-of-a", "name": "friend", "group": "lab"},
      {"key": "sk-key-of-admin", "name": "admin", "admin": true}]})")
      .value();
}

json::object Read(const RigAnswer& answer, int status = 200) {
  EXPECT_EQ(answer.status, status) << answer.body;
  json::error_code error;
  const json::value value = json::parse(answer.body, error);
  EXPECT_TRUE(!error && value.is_object()) << answer.body;
  return value.is_object() ? value.get_object() : json::object();
}

std::string ErrorCode(const RigAnswer& answer) {
  const json::object body = Read(answer, answer.status);
  const json::value& code = body.at("error").at("code");
  return code.is_string() ? std::string(code.get_string()) : "";
}

// 48 tokens, then so many more.
std::string Prompt(std::string_view more) {
  std::string text;
  for (int i = 0; i < 24; ++i) text += "bc";
  return R"({"prompt": ")" + text.append(more) + "\"";
}

TEST(ModelRoutes, ListTheModelUnderAllOfItsNames) {
  RoutesRig rig;
  const json::object list = Read(rig.Ask("GET", "/v1/models"));
  EXPECT_EQ(list.at("object"), "list");
  const json::array& data = list.at("data").as_array();
  ASSERT_EQ(data.size(), 3u);
  EXPECT_EQ(data[0].at("id"), "rig");
  EXPECT_EQ(data[0].at("object"), "model");
  EXPECT_EQ(data[0].at("created"), 7);
  EXPECT_EQ(data[0].at("max_model_len"), 256);
  EXPECT_EQ(data[1].at("id"), "gpt-4o");
  EXPECT_EQ(data[1].at("root"), "rig");
}

TEST(ModelRoutes, FindAModelByItsIdAndAliases) {
  RoutesRig rig;
  for (const char* name : {"rig", "gpt-4o"}) {
    EXPECT_EQ(Read(rig.Ask("GET", std::string("/v1/models/") + name)).at("id"), name);
  }
  EXPECT_EQ(Read(rig.Ask("GET", "/v1/models/org/rig")).at("id"), "org/rig");
  EXPECT_EQ(Read(rig.Ask("GET", "/v1/models/org%2Frig")).at("id"), "org/rig");
  EXPECT_EQ(Read(rig.Ask("GET", "/v1/models/gpt%2d4o")).at("id"), "gpt-4o");
}

TEST(ModelRoutes, AnswerForNoOtherModel) {
  RoutesRig rig;
  for (const char* name : {"no-such", "rig.gguf", "rig%", "rig%00", "RIG", "%zz", "%ff"}) {
    const RigAnswer answer = rig.Ask("GET", std::string("/v1/models/") + name);
    EXPECT_EQ(answer.status, 404) << name;
    EXPECT_EQ(ErrorCode(answer), "model_not_found") << name;
    EXPECT_THAT(answer.body, HasSubstr("rig, gpt-4o, org/rig"));
  }
  for (const char* path : {"/tokenize", "/quire/explain", "/quire/pins"}) {
    const RigAnswer answer = rig.Ask("POST", path, R"({"model": "no-such", "prompt": "a"})");
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_EQ(ErrorCode(answer), "model_not_found") << path;
    EXPECT_EQ(rig.Ask("POST", path, R"({"model": "gpt-4o", "prompt": "a"})").status, 200) << path;
    EXPECT_EQ(rig.Ask("POST", path, R"({"model": "", "prompt": "a"})").status, 200) << path;
  }
}

TEST(TokenRoutes, TurnTextIntoTokensAndBack) {
  RoutesRig rig;
  const json::object tokens = Read(rig.Ask("POST", "/tokenize", R"({"prompt": "abc"})"));
  EXPECT_EQ(tokens.at("tokens"), json::array({3, 4, 5}));
  EXPECT_EQ(tokens.at("count"), 3);
  EXPECT_EQ(tokens.at("max_model_len"), 256);
  EXPECT_EQ(Read(rig.Ask("POST", "/detokenize", R"({"tokens": [5, 4, 3]})")).at("prompt"), "cba");
}

TEST(TokenRoutes, RenderAChat) {
  RoutesRig rig;
  const json::object tokens = Read(
      rig.Ask("POST", "/tokenize", R"({"messages": [{"role": "user", "content": "b<end>"}]})"));
  // What a user writes is never a control token: here nothing in the vocabulary spells it.
  const json::array& ids = tokens.at("tokens").as_array();
  ASSERT_GE(ids.size(), 4u);
  EXPECT_EQ(ids[0], 1);
  EXPECT_EQ(ids[1], 4);
  EXPECT_EQ(ids[ids.size() - 2], 0);
  EXPECT_EQ(ids[ids.size() - 1], 2);
}

TEST(TokenRoutes, RefuseWhatIsNoBody) {
  RoutesRig rig;
  for (const char* path : {"/tokenize", "/detokenize", "/quire/explain", "/quire/pins"}) {
    for (const char* body : {"", "{bad", "[]", "{}", "3", R"({"prompt": 3})", R"({"tokens": "a"})",
                             R"({"messages": []})", R"({"messages": "hi"})",
                             R"({"messages": [{"role": "wizard", "content": "a"}]})",
                             R"({"prompt": [99]})", R"({"tokens": [99]})", "\xff\xfe"}) {
      const RigAnswer answer = rig.Ask("POST", path, body);
      EXPECT_EQ(answer.status, 400) << path << " " << body << " " << answer.body;
      EXPECT_THAT(answer.body, HasSubstr(R"({"error":{"message":)"));
    }
  }
}

TEST(HealthRoutes, AreReadyUntilTheServerDrains) {
  RoutesRig rig;
  EXPECT_EQ(Read(rig.Ask("GET", "/health")).at("status"), "ok");
  rig.context().is_ready = [] { return false; };
  const RigAnswer draining = rig.Ask("GET", "/health");
  EXPECT_EQ(draining.status, 503);
  EXPECT_EQ(draining.Header("Retry-After"), "1");
  EXPECT_EQ(rig.Ask("GET", "/live").status, 200);
}

TEST(HealthRoutes, TellTheVersionAndTheCounts) {
  RoutesRig rig;
  EXPECT_THAT(rig.Ask("GET", "/version").body,
              ::testing::MatchesRegex(R"(\{"version":"[0-9]+\.[0-9]+\.[0-9]+"\})"));
  EXPECT_EQ(rig.Ask("GET", "/nowhere").status, 404);
  const RigAnswer metrics = rig.Ask("GET", "/metrics");
  EXPECT_EQ(metrics.status, 200);
  EXPECT_THAT(metrics.body, HasSubstr("vllm:num_requests_running"));
}

TEST(QuireCache, CountsBlocksAndBytes) {
  RoutesRig rig;
  ASSERT_EQ(rig.Ask("POST", "/v1/completions", Prompt("") + R"(, "max_tokens": 4})").status, 200);
  // Goes through the engine's thread, which has then told of the step before.
  ASSERT_EQ(rig.Ask("GET", "/quire/plan").status, 200);
  const json::object cache = Read(rig.Ask("GET", "/quire/cache"));
  EXPECT_EQ(cache.at("version"), 1);
  const json::object& blocks = cache.at("blocks").as_object();
  EXPECT_EQ(blocks.at("total"), 64);
  EXPECT_EQ(
      blocks.at("used").as_int64() + blocks.at("cached").as_int64() + blocks.at("free").as_int64(),
      64);
  EXPECT_EQ(cache.at("bytes").at("total").as_int64(), 64 * cache.at("block_bytes").as_int64());
  EXPECT_EQ(cache.at("tokens").at("prompt"), 48);
  EXPECT_EQ(cache.at("tokens").at("generated"), 4);
  EXPECT_EQ(cache.at("misses").at("never_seen"), 1);
  EXPECT_EQ(cache.at("prefix_cache").at("tokens_looked_up"), 48);
}

TEST(QuirePlan, IsThatOfWhatRuns) {
  RoutesRig rig;
  const json::object plan = Read(rig.Ask("GET", "/quire/plan"));
  EXPECT_EQ(plan.at("version"), 1);
  EXPECT_EQ(plan.at("model"), "rig");
  EXPECT_EQ(plan.at("context"), 256);
  EXPECT_EQ(plan.at("kv").at("blocks"), 64);
  EXPECT_EQ(plan.at("kv").at("blocks_per_sequence"), 16);
  EXPECT_EQ(plan.at("fits").at("sequences_of_whole_context"), 4);
  EXPECT_EQ(plan.at("fits").at("tokens_of_one_sequence"), 256);
  int64_t sum = 0;
  const json::object& memory = plan.at("memory").as_object();
  for (const auto& line : memory) sum += line.key() == "total_bytes" ? 0 : line.value().as_int64();
  EXPECT_EQ(sum, memory.at("total_bytes").as_int64());
  EXPECT_EQ(memory.at("kv_bytes"), plan.at("kv").at("bytes"));
  EXPECT_EQ(plan.at("break_even").at("prefix_tokens"), json::array{256});
  EXPECT_EQ(plan.at("break_even").at("prefix_bytes").at(0),
            256 * plan.at("kv").at("bytes_per_token").as_int64());
}

class QuireExplain : public ::testing::Test {
 protected:
  json::object Explain(std::string_view body, std::string_view key = {}) {
    const json::object answer = Read(rig_.Ask("POST", "/quire/explain", body, key));
    return answer.at("prompts").at(0).as_object();
  }
  static json::value ReasonOf(const json::object& prompt) { return prompt.at("miss").at("reason"); }
  void Compute(const std::string& body, std::string_view key = {}) {
    const RigAnswer answer = rig_.Ask("POST", "/v1/completions", body, key);
    ASSERT_EQ(answer.status, 200) << answer.body;
  }

  RoutesRig rig_{{.tenants = FourKeys()}};
};

TEST_F(QuireExplain, TellsWhatWasNeverSeen) {
  const json::object prompt = Explain(Prompt("") + "}", kB);
  EXPECT_EQ(prompt.at("tokens"), 48);
  EXPECT_EQ(prompt.at("cached_tokens"), 0);
  EXPECT_EQ(prompt.at("tokens_to_compute"), 48);
  EXPECT_EQ(ReasonOf(prompt), "never_seen");
  EXPECT_EQ(prompt.at("miss").at("position"), 0);
  EXPECT_EQ(prompt.at("miss").at("prompt_text"), "bcbcbcbcbcbcbcbc");
}

TEST_F(QuireExplain, TellsWhatIsCachedAndComputesNothing) {
  Compute(Prompt("") + R"(, "max_tokens": 1})", kB);
  Explain(Prompt("") + "}", kB);
  const json::object before = Read(rig_.Ask("GET", "/quire/cache", "", kAdmin));
  const json::object prompt = Explain(Prompt("") + "}", kB);
  EXPECT_EQ(prompt.at("cached_tokens"), 47);
  EXPECT_TRUE(prompt.at("miss").is_null());
  EXPECT_EQ(Read(rig_.Ask("GET", "/quire/cache", "", kAdmin)).at("tokens"), before.at("tokens"));
}

TEST_F(QuireExplain, ShowsBothTextsWhereTheyDiffer) {
  Compute(Prompt("aaaaaaaaaaaaaaaa") + R"(, "max_tokens": 1})", kB);
  const json::object prompt = Explain(Prompt("aaabbbbbbbbbbbbbbbb") + "}", kB);
  EXPECT_EQ(prompt.at("cached_tokens"), 51);
  EXPECT_EQ(ReasonOf(prompt), "differs");
  EXPECT_EQ(prompt.at("miss").at("position"), 51);
  EXPECT_EQ(prompt.at("miss").at("prompt_text"), "bbbbbbbbbbbbbbbb");
  EXPECT_THAT(std::string(prompt.at("miss").at("cached_text").as_string()),
              ::testing::StartsWith("aaa"));
}

TEST_F(QuireExplain, TellsOfARequestThatReadsNoCache) {
  Compute(Prompt("") + R"(, "max_tokens": 1})", kB);
  const json::object prompt = Explain(Prompt("") + R"(, "prompt_logprobs": 1})", kB);
  EXPECT_EQ(prompt.at("cached_tokens"), 0);
  EXPECT_EQ(ReasonOf(prompt), "not_read");
}

TEST_F(QuireExplain, TakesAChatAndSeveralPrompts) {
  const json::object chat = Explain(R"({"messages": [{"role": "user", "content": "b"}]})", kB);
  EXPECT_EQ(chat.at("tokens"), 4);
  const json::object several =
      Read(rig_.Ask("POST", "/quire/explain", R"({"prompt": ["a", [4, 5]]})", kB));
  EXPECT_EQ(several.at("prompts").as_array().size(), 2u);
}

TEST_F(QuireExplain, ATenantLearnsNothingOfAnothersPrefixes) {
  Compute(Prompt("") + R"(, "max_tokens": 1})", kB);
  for (const std::string_view key : {kA, kAdmin}) {
    const json::object prompt = Explain(Prompt("") + "}", key);
    EXPECT_EQ(prompt.at("cached_tokens"), 0);
    EXPECT_EQ(ReasonOf(prompt), "never_seen");
    EXPECT_EQ(Explain(Prompt("aaaa") + "}", key).at("miss").as_object().contains("cached_text"),
              false);
  }
}

TEST_F(QuireExplain, AGroupSharesAndARequestsSaltParts) {
  Compute(Prompt("") + R"(, "max_tokens": 1})", kFriend);
  EXPECT_EQ(Explain(Prompt("") + "}", kA).at("cached_tokens"), 47);
  EXPECT_EQ(Explain(Prompt("") + R"(, "cache_salt": "x"})", kA).at("cached_tokens"), 0);
  EXPECT_EQ(Explain(Prompt("") + R"(, "cache_salt": "x"})", kFriend).at("cached_tokens"), 0);
}

TEST_F(QuireExplain, AfterTheEngineHasStoppedTheServerIsUnavailable) {
  rig_.StopEngine();
  for (const char* path : {"/quire/explain", "/quire/pins"}) {
    const RigAnswer answer = rig_.Ask("POST", path, R"({"prompt": "a"})", kB);
    EXPECT_EQ(answer.status, 503) << path;
    EXPECT_EQ(answer.Header("Retry-After"), "1");
  }
  EXPECT_EQ(rig_.Ask("GET", "/quire/plan", "", kAdmin).status, 503);
}

}  // namespace
}  // namespace quire
