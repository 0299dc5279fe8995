#include "server/routes/plan_answer.h"

#include <boost/json.hpp>

#include "plan/plan_fixture.h"

namespace quire {
namespace {

namespace json = boost::json;
using namespace testing;
using ::testing::HasSubstr;

// As if SmolLM2 ran, two sequences of 1,024 tokens at once.
std::variant<std::string, ApiError> Ask(std::string_view query) {
  return PlanAnswerBody({.model = "runs",
                         .shape = Preset("smollm2-135m"),
                         .options = {.context_tokens = 1024, .num_sequences = 2, .num_threads = 2}},
                        ParseQuery(query));
}

json::object Answer(std::string_view query) {
  const auto answer = Ask(query);
  const auto* error = std::get_if<ApiError>(&answer);
  QUIRE_CHECK(error == nullptr, "{}: {}", query, error->message);
  return json::parse(std::get<std::string>(answer)).as_object();
}

TEST(PlanAnswer, IsOfWhatRunsButForWhatIsAsked) {
  const json::object answer = Answer("kv_type=q8_0");
  EXPECT_EQ(answer.at("object"), "quire.plan_answer");
  EXPECT_EQ(answer.at("model"), "runs");
  EXPECT_EQ(answer.at("is_preset"), false);
  EXPECT_EQ(answer.at("context"), 1024);
  EXPECT_EQ(answer.at("sequences"), 2);
  EXPECT_EQ(answer.at("kv").at("type"), "q8_0");
  EXPECT_TRUE(answer.at("fits").is_null());
  EXPECT_TRUE(answer.at("concurrency").is_null());
  EXPECT_EQ(Answer("context=2048&sequences=3").at("kv").at("blocks"), 3 * 128);
}

TEST(PlanAnswer, KnowsTheCardOfTheTeachingNote) {
  for (const auto& [context, naive, whole] :
       {std::tuple{512, 48, 34}, {2048, 12, 8}, {4096, 6, 4}, {8192, 3, 2}}) {
    const std::string asked = fmt::format("preset=qwen-7b&context={}", context);
    EXPECT_EQ(Answer(asked + "&kv_size=12GiB").at("concurrency").at("worst_case"), naive);
    const json::object answer = Answer(asked + "&memory=24GiB&overhead=1GiB");
    EXPECT_EQ(answer.at("fits").at("sequences"), whole);
    EXPECT_EQ(answer.at("concurrency").at("worst_case"), whole);
    // Blocks on demand: what a context may be at most does not matter.
    EXPECT_EQ(answer.at("concurrency").at("expected"), 34);
  }
}

TEST(PlanAnswer, APresetHasItsOwnContextAndOneSequence) {
  const json::object answer = Answer("preset=llama-3-8b");
  EXPECT_EQ(answer.at("is_preset"), true);
  EXPECT_EQ(answer.at("context"), 8192);
  EXPECT_EQ(answer.at("sequences"), 1);
}

TEST(PlanAnswer, ItsLinesAreTheTotalAndAgreeWithThePlan) {
  const json::object answer = Answer("memory=8GiB&context=512");
  int64_t sum = 0;
  for (const auto& line : answer.at("memory").as_object()) {
    if (line.key() != "total_bytes") sum += line.value().as_int64();
  }
  EXPECT_EQ(answer.at("memory").at("total_bytes"), sum);
  const MemoryPlan plan =
      Plan(Preset("smollm2-135m"), {.context_tokens = 512, .num_sequences = 2, .num_threads = 2});
  EXPECT_EQ(static_cast<uint64_t>(sum), plan.total_bytes());
  for (const json::value& fit : answer.at("fits").at("kv_types").as_array()) {
    if (fit.at("type") == "f16") {
      EXPECT_EQ(fit.at("sequences"), answer.at("fits").at("sequences"));
    }
  }
}

TEST(PlanAnswer, NamesTheParameterAtFault) {
  for (const auto& [query, param, words] : {
           std::tuple{"context=-1", "context", "1 or more"},
           {"context=", "context", "1 or more"},
           {"context=9999999999999", "context", "1 or more"},
           {"context=12x", "context", "1 or more"},
           {"sequences=0", "sequences", "1 or more"},
           {"kv_type=q3", "kv_type", "f16, bf16"},
           {"preset=gpt-9", "preset", "qwen-7b"},
           {"memory=24G", "memory", "GiB"},
           {"kv_size=lots", "kv_size", "GiB"},
           {"context=1&context=2", "context", "it once"},
           {"colour=red", "colour", "no such parameter"},
           {"%ff%00=1", "\xef\xbf\xbd", "no such parameter"},
       }) {
    const auto answer = Ask(query);
    const auto* error = std::get_if<ApiError>(&answer);
    ASSERT_NE(error, nullptr) << query;
    EXPECT_EQ(error->status, 400) << query;
    EXPECT_THAT(error->param, HasSubstr(param)) << query;
    EXPECT_THAT(error->message, HasSubstr(words)) << query;
  }
  const auto answer = Ask("sequences=99999999");
  ASSERT_TRUE(std::holds_alternative<ApiError>(answer));
  EXPECT_EQ(std::get<ApiError>(answer).status, 400);
}

// The largest of everything ends in a number, not in an overflow.
TEST(PlanAnswer, AbsurdSizesAreAnswered) {
  const json::object answer = Answer(
      "preset=llama-3.1-405b&context=2147483647&sequences=1048576&prefill_chunk=1048576"
      "&kv_type=f32&memory=99999TiB");
  EXPECT_GT(answer.at("memory").at("total_bytes").as_int64(), 0);
}

}  // namespace
}  // namespace quire
