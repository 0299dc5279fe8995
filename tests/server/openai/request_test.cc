#include "server/openai/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr OpenAiLimits kLimits = {.max_body_bytes = 1 << 20, .vocab_size = 100};

// A chat with these members beside its messages, or a completion with them beside its prompt.
std::string Chat(const std::string& members) {
  return R"({"messages":[{"role":"user","content":"hi"}])" +
         (members.empty() ? "" : "," + members) + "}";
}
std::string Completion(const std::string& members) {
  return R"({"prompt":"hi")" + (members.empty() ? "" : "," + members) + "}";
}

std::variant<OpenAiRequest, ApiError> ParseChat(const std::string& body) {
  return ParseOpenAiRequest(OpenAiEndpoint::kChatCompletions, body, kLimits);
}
std::variant<OpenAiRequest, ApiError> ParseCompletion(const std::string& body) {
  return ParseOpenAiRequest(OpenAiEndpoint::kCompletions, body, kLimits);
}

OpenAiRequest Accepted(const std::variant<OpenAiRequest, ApiError>& parsed) {
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    ADD_FAILURE() << error->param << ": " << error->message;
    return {};
  }
  return std::get<OpenAiRequest>(parsed);
}

ApiError Refused(const std::variant<OpenAiRequest, ApiError>& parsed) {
  if (std::holds_alternative<OpenAiRequest>(parsed)) {
    ADD_FAILURE() << "accepted";
    return {};
  }
  return std::get<ApiError>(parsed);
}

TEST(OpenAiRequest, HasTheDefaultsOfTheApi) {
  for (const OpenAiRequest& body :
       {Accepted(ParseChat(Chat(""))), Accepted(ParseCompletion(Completion("")))}) {
    EXPECT_EQ(body.request.sampling.temperature, 1.0f);
    EXPECT_EQ(body.request.sampling.top_p, 1.0f);
    EXPECT_EQ(body.request.sampling.top_k, 0);
    EXPECT_EQ(body.request.sampling.min_p, 0.0f);
    EXPECT_EQ(body.request.sampling.repetition_penalty, 1.0f);
    EXPECT_FALSE(body.request.sampling.seed);
    EXPECT_FALSE(body.request.sampling.logprobs);
    EXPECT_FALSE(body.request.prompt_logprobs);
    EXPECT_FALSE(body.max_tokens);
    EXPECT_EQ(body.request.num_choices, 1);
    EXPECT_EQ(body.request.beams.width, 0);
    EXPECT_TRUE(body.add_generation_prompt);
    EXPECT_FALSE(body.stream);
    EXPECT_THAT(body.ignored, IsEmpty());
  }
}

TEST(OpenAiRequest, ReadsEveryField) {
  const OpenAiRequest body = Accepted(ParseChat(Chat(R"(
      "model":"m","max_tokens":9,"temperature":0.5,"top_p":0.25,"top_k":40,"min_p":0.125,"n":3,
      "best_of":3,"stop":["a","b"],"seed":-1,"logit_bias":{"7":-100,"8":2.5},
      "presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":1.5,"min_tokens":2,
      "ignore_eos":true,"stop_token_ids":[5,6],"include_stop_str_in_output":true,
      "logprobs":true,"top_logprobs":2,"cache_salt":"s","priority":-3,
      "stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true,
      "include_obfuscation":false},"return_token_ids":true,"return_tokens_as_token_ids":true,
      "allowed_token_ids":[1,2],"bad_words":["x","y z"],"truncate_prompt_tokens":7,
      "add_special_tokens":false,"documents":[{"title":"t","text":"d"}],"request_id":"r-1",
      "quire":true,"echo":true,"parallel_tool_calls":false,"modalities":["text"],
      "response_format":{"type":"text"},"tool_choice":"auto",
      "tools":[{"type":"function","function":{"name":"add"}}],
      "add_generation_prompt":false,"chat_template_kwargs":{"enable_thinking":false},
      "skip_special_tokens":false,"user":"u","metadata":{"a":1})")));
  const Request& request = body.request;
  EXPECT_EQ(body.model, "m");
  EXPECT_EQ(body.max_tokens, 9);
  EXPECT_EQ(request.sampling.temperature, 0.5f);
  EXPECT_EQ(request.sampling.top_p, 0.25f);
  EXPECT_EQ(request.sampling.top_k, 40);
  EXPECT_EQ(request.sampling.min_p, 0.125f);
  EXPECT_EQ(request.num_choices, 3);
  EXPECT_THAT(request.stops, ElementsAre("a", "b"));
  EXPECT_EQ(request.sampling.seed, UINT64_MAX);
  EXPECT_EQ(request.sampling.logit_bias, (std::map<int32_t, float>{{7, -100.f}, {8, 2.5f}}));
  EXPECT_EQ(request.sampling.presence_penalty, 1.0f);
  EXPECT_EQ(request.sampling.frequency_penalty, -1.0f);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(request.min_tokens, 2);
  EXPECT_TRUE(request.ignore_end_of_text);
  EXPECT_THAT(request.stop_token_ids, ElementsAre(5, 6));
  EXPECT_TRUE(request.include_stop);
  EXPECT_THAT(request.sampling.allowed_token_ids, ElementsAre(1, 2));
  EXPECT_THAT(body.bad_words, ElementsAre("x", "y z"));
  EXPECT_EQ(body.truncate_prompt_tokens, 7);
  EXPECT_EQ(body.add_special_tokens, false);
  EXPECT_TRUE(body.documents.IsList());
  EXPECT_EQ(body.request_id, "r-1");
  EXPECT_TRUE(body.include_quire);
  EXPECT_TRUE(body.continuous_usage);
  EXPECT_TRUE(body.tokens_as_token_ids);
  EXPECT_TRUE(request.show_control_tokens);
  EXPECT_FALSE(body.parallel_tool_calls);
  EXPECT_THAT(body.tool_names, ElementsAre("add"));
  EXPECT_TRUE(body.echo);
  EXPECT_EQ(body.chat_echo, "");
  EXPECT_EQ(request.sampling.logprobs, 2);
  EXPECT_EQ(request.cache_salt, "s");
  EXPECT_EQ(request.priority, -3);
  EXPECT_TRUE(body.stream);
  EXPECT_TRUE(body.include_usage);
  EXPECT_TRUE(body.return_token_ids);
  EXPECT_TRUE(body.tools.IsList());
  EXPECT_FALSE(body.add_generation_prompt);
  EXPECT_TRUE(body.template_arguments.IsDict());
  EXPECT_THAT(body.ignored, IsEmpty());
}

TEST(OpenAiRequest, TakesNullForAbsent) {
  const OpenAiRequest body = Accepted(ParseChat(Chat(R"(
      "model":null,"temperature":null,"top_p":null,"max_tokens":null,"n":null,"stop":null,
      "seed":null,"logit_bias":null,"tools":null,"tool_choice":null,"response_format":null,
      "stream":null,"stream_options":null,"user":null,"logprobs":null,"top_logprobs":null,
      "functions":null,"best_of":null,"chat_template_kwargs":null,"skip_special_tokens":null,
      "whatever":null)")));
  EXPECT_EQ(body.request.sampling.temperature, 1.0f);
  EXPECT_FALSE(body.max_tokens);
  EXPECT_TRUE(body.tools.IsNone());
  EXPECT_THAT(body.ignored, IsEmpty());
}

TEST(OpenAiRequest, TellsTheFourFormsOfAPromptApart) {
  using Ids = std::vector<int32_t>;
  const auto prompts = [](const std::string& prompt) {
    return Accepted(ParseCompletion(R"({"prompt":)" + prompt + "}")).prompts;
  };
  EXPECT_THAT(prompts(R"("a")"), ElementsAre(OpenAiPrompt("a")));
  EXPECT_THAT(prompts(R"(["a","b"])"), ElementsAre(OpenAiPrompt("a"), OpenAiPrompt("b")));
  EXPECT_THAT(prompts("[1,2,3]"), ElementsAre(OpenAiPrompt(Ids{1, 2, 3})));
  EXPECT_THAT(prompts("[[1,2],[3]]"), ElementsAre(OpenAiPrompt(Ids{1, 2}), OpenAiPrompt(Ids{3})));
  EXPECT_THAT(prompts(R"("")"), ElementsAre(OpenAiPrompt("")));
  for (const char* bad : {"[]", "[[]]", R"([1,"a"])", "[100]", "[-1]", "[1.5]", "7", "{}", "null",
                          R"(["a",1])", "[[1],2]", R"([["a"]])", "[[100]]", "[true]"}) {
    const ApiError error = Refused(ParseCompletion(std::string(R"({"prompt":)") + bad + "}"));
    EXPECT_EQ(error.status, 400) << bad;
    EXPECT_EQ(error.param, "prompt") << bad;
  }
}

TEST(OpenAiRequest, RefusesWhatIsOutOfRangeWithTheNameAndTheRange) {
  struct Case {
    const char* member;
    const char* param;
    const char* message;
  };
  for (const Case& bad : {
           Case{R"("temperature":"hot")", "temperature", "from 0 to 2, got 'hot'"},
           Case{R"("temperature":2.5)", "temperature", "from 0 to 2, got 2.5"},
           Case{R"("temperature":1e400)", "temperature", "from 0 to 2"},
           Case{R"("temperature":-0.1)", "temperature", "from 0 to 2"},
           Case{R"("temperature":true)", "temperature", "got true"},
           Case{R"("top_p":1.5)", "top_p", "from 0 to 1"},
           Case{R"("top_p":-0.1)", "top_p", "from 0 to 1"},
           Case{R"("top_k":-2)", "top_k", "from -1"},
           Case{R"("top_k":1.5)", "top_k", "integer"},
           Case{R"("min_p":2)", "min_p", "from 0 to 1"},
           Case{R"("repetition_penalty":0)", "repetition_penalty", "from 0.01 to 100"},
           Case{R"("presence_penalty":3)", "presence_penalty", "from -2 to 2"},
           Case{R"("frequency_penalty":-3)", "frequency_penalty", "from -2 to 2"},
           Case{R"("n":0)", "n", "from 1 to 128"},
           Case{R"("n":129)", "n", "from 1 to 128"},
           Case{R"("n":2,"best_of":3)", "best_of", "must equal n"},
           Case{R"("max_tokens":0)", "max_tokens", "from 1"},
           Case{R"("max_tokens":-1)", "max_tokens", "from 1"},
           Case{R"("max_tokens":1.5)", "max_tokens", "1.5"},
           Case{R"("max_tokens":"5")", "max_tokens", "got '5'"},
           Case{R"("max_tokens":3,"min_tokens":4)", "min_tokens", "at most max_tokens, which is 3"},
           Case{R"("seed":1.5)", "seed", "integer"},
           Case{R"("stop":[1])", "stop", "strings"},
           Case{R"("stop":"")", "stop", "empty"},
           Case{R"("stop_token_ids":[100])", "stop_token_ids", "from 0 to 99"},
           Case{R"("logit_bias":{"999999":-100})", "logit_bias", "from 0 to 99"},
           Case{R"("logit_bias":{"AI":-100})", "logit_bias", "'AI'"},
           Case{R"("logit_bias":{"-1":5})", "logit_bias", "'-1'"},
           Case{R"("logit_bias":{"1":101})", "logit_bias", "from -100 to 100, got 101"},
           Case{R"("logit_bias":[])", "logit_bias", "an object"},
           Case{R"("top_logprobs":21,"logprobs":true)", "top_logprobs", "from 0 to 20"},
           Case{R"("top_logprobs":2)", "top_logprobs", "needs logprobs"},
           Case{R"("logprobs":3)", "logprobs", "true or false"},
           Case{R"("prompt_logprobs":21)", "prompt_logprobs", "from 0 to 20"},
           Case{R"("use_beam_search":true,"n":11)", "n", "from 1 to 10"},
           Case{R"("use_beam_search":true,"n":3,"beam_width":2)", "beam_width", "from 3 to 10"},
           Case{R"("use_beam_search":true,"stop":"x")", "stop", "beam search"},
           Case{R"("stream_options":{"include_usage":true})", "stream_options", "stream"},
           Case{R"("response_format":{"type":"json_object"})", "response_format", "json_object"},
           Case{R"("response_format":{"type":"xml"})", "response_format", "xml"},
           Case{R"("tool_choice":"required")", "tool_choice", "'none' or 'auto'"},
           Case{R"("tools":[1])", "tools", "element 0 is 1"},
           Case{R"("tools":[{"type":"function"}])", "tools", "a function that has a name"},
           Case{R"("tools":[{"type":"web_search","function":{"name":"a"}}])", "tools", "element 0"},
           Case{R"("tool_choice":{"type":"function","function":{"name":"a"}})", "tool_choice",
                "cannot be forced"},
           Case{R"("skip_special_tokens":1)", "skip_special_tokens", "true or false"},
           Case{R"("suffix":"x")", "suffix", "not supported in a chat"},
           Case{R"("allowed_token_ids":[])", "allowed_token_ids", "must not be empty"},
           Case{R"("allowed_token_ids":[100])", "allowed_token_ids", "from 0 to 99"},
           Case{R"("bad_words":"x")", "bad_words", "an array"},
           Case{R"("bad_words":[1])", "bad_words", "strings alone"},
           Case{R"("bad_words":[" "])", "bad_words", "empty or space"},
           Case{R"("truncate_prompt_tokens":0)", "truncate_prompt_tokens", "-1, or 1 or more"},
           Case{R"("truncate_prompt_tokens":-2)", "truncate_prompt_tokens", "from -1"},
           Case{R"("continue_final_message":true,"add_generation_prompt":true)",
                "continue_final_message", "cannot both"},
           Case{R"("stream":true,"prompt_logprobs":1)", "prompt_logprobs", "with stream"},
           Case{R"("stream":true,"stream_options":{"include_usage":1})", "stream_options",
                "include_usage"},
           Case{R"("documents":["x"])", "documents", "objects alone"},
           Case{R"("modalities":["text","audio"])", "modalities", "'text' alone"},
           Case{R"("chat_template":"{{ x }}")", "chat_template", "not supported"},
           Case{R"("reasoning_effort":"low")", "reasoning_effort", "not supported"},
           Case{R"("quire":"yes")", "quire", "true or false"},
           Case{R"("request_id":7)", "request_id", "a string"},
           Case{R"("echo":true,"max_tokens":0)", "max_tokens", "from 1"},
           Case{R"("guided_regex":"x")", "guided_regex", "not supported"},
           Case{R"("cache_salt":"")", "cache_salt", "empty"},
           Case{R"("speculative.n_max":-1)", "speculative.n_max", "0"},
           Case{R"("chat_template_kwargs":[])", "chat_template_kwargs", "an object"},
           Case{R"("model":1)", "model", "a string"},
       }) {
    const ApiError error = Refused(ParseChat(Chat(bad.member)));
    EXPECT_EQ(error.status, 400) << bad.member;
    EXPECT_EQ(error.type, "invalid_request_error") << bad.member;
    EXPECT_THAT(error.message, HasSubstr(bad.message)) << bad.member;
    EXPECT_EQ(error.param, bad.param) << bad.member;
  }
}

TEST(OpenAiRequest, AcceptsTheEndsOfTheRanges) {
  const OpenAiRequest body = Accepted(ParseChat(Chat(
      R"("temperature":2,"top_p":0,"top_k":-1,"min_p":1,"repetition_penalty":0.01,
         "presence_penalty":-2,"frequency_penalty":2,"n":128,"max_tokens":1000000000000,
         "seed":9223372036854775807,"logit_bias":{},"stop":[],"tools":[],"tool_choice":"none",
         "top_logprobs":0,"suffix":"","bad_words":[],"max_completion_tokens":5.0)")));
  EXPECT_TRUE(body.request.sampling.Validate(100).ok());
  EXPECT_EQ(body.request.sampling.seed, uint64_t{9223372036854775807u});
  // The newer name wins.
  EXPECT_EQ(body.max_tokens, 5);
  EXPECT_EQ(Accepted(ParseChat(Chat(R"("max_tokens":1000000000000)"))).max_tokens, INT32_MAX);
}

TEST(OpenAiRequest, CountsStopStrings) {
  std::string stops = R"("a")";
  for (int i = 1; i < 16; ++i) stops += R"(,"a")";
  EXPECT_EQ(Accepted(ParseChat(Chat("\"stop\":[" + stops + "]"))).request.stops.size(), 16u);
  EXPECT_EQ(Refused(ParseChat(Chat("\"stop\":[" + stops + ",\"b\"]"))).param, "stop");
}

TEST(OpenAiRequest, AsksForThePromptsLogProbabilitiesWhereEchoShowsThem) {
  const OpenAiRequest plain = Accepted(ParseCompletion(Completion(R"("echo":true)")));
  EXPECT_FALSE(plain.request.prompt_logprobs);
  const OpenAiRequest body =
      Accepted(ParseCompletion(Completion(R"("echo":true,"logprobs":3,"max_tokens":0)")));
  EXPECT_EQ(body.request.prompt_logprobs, 3);
  EXPECT_FALSE(body.prompt_logprobs);
  EXPECT_EQ(body.max_tokens, 0);
  EXPECT_EQ(Refused(ParseCompletion(Completion(R"("max_tokens":0)"))).param, "max_tokens");
  EXPECT_EQ(Refused(ParseCompletion(Completion(R"("logprobs":21)"))).param, "logprobs");
  EXPECT_EQ(Refused(ParseCompletion(Completion(R"("logprobs":true)"))).param, "logprobs");
}

TEST(OpenAiRequest, TakesBeamsFromNWhereNoWidthIsGiven) {
  const OpenAiRequest body = Accepted(ParseChat(
      Chat(R"("use_beam_search":true,"n":4,"length_penalty":0.5,"early_stopping":true)")));
  EXPECT_EQ(body.request.beams.width, 4);
  EXPECT_EQ(body.request.beams.length_penalty, 0.5);
  EXPECT_TRUE(body.request.beams.early_stopping);
  EXPECT_EQ(Accepted(ParseChat(Chat(R"("beam_width":4)"))).request.beams.width, 0);
}

TEST(OpenAiRequest, TakesDraftsAsLlamaCppHasThem) {
  EXPECT_EQ(Accepted(ParseChat(Chat(R"("speculative.n_max":0)"))).request.max_drafts, 0);
  EXPECT_EQ(Accepted(ParseChat(Chat(R"("speculative.n_max":4)"))).request.max_drafts, 4);
  EXPECT_EQ(Accepted(ParseChat(Chat(""))).request.max_drafts, std::nullopt);
}

TEST(OpenAiRequest, HidesToolsThatMustNotBeCalled) {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"add"}}])";
  EXPECT_TRUE(Accepted(ParseChat(Chat(tools))).tools.IsList());
  EXPECT_TRUE(Accepted(ParseChat(Chat(tools + R"(,"tool_choice":"none")"))).tools.IsNone());
  EXPECT_TRUE(Accepted(ParseChat(Chat(tools + R"(,"tool_choice":"none")"))).tool_names.empty());
  for (const char* nothing :
       {R"("tool_choice":"auto")", R"("tool_choice":"none")", R"("tool_choice":null,"tools":[])"}) {
    EXPECT_TRUE(Accepted(ParseChat(Chat(nothing))).tools.IsNone()) << nothing;
  }
}

TEST(OpenAiRequest, RepeatsWhatTheAssistantSaidLastWithEcho) {
  const OpenAiRequest body = Accepted(ParseChat(R"({"echo":true,"continue_final_message":true,
      "messages":[{"role":"user","content":"x"},{"role":"assistant","content":"Well"}]})"));
  EXPECT_EQ(body.chat_echo, "Well");
  EXPECT_TRUE(body.continue_final_message);
  // There is no answer to be asked for: it has begun.
  EXPECT_FALSE(body.add_generation_prompt);
}

TEST(OpenAiRequest, FillsInWithASuffix) {
  EXPECT_EQ(Accepted(ParseCompletion(Completion(R"("suffix":"end")"))).suffix, "end");
  EXPECT_FALSE(Accepted(ParseCompletion(Completion(R"("suffix":"")"))).suffix);
  EXPECT_EQ(Refused(ParseCompletion(Completion(R"("suffix":"x","echo":true)"))).param, "echo");
  EXPECT_EQ(Refused(ParseCompletion(Completion(R"("suffix":1)"))).param, "suffix");
}

TEST(OpenAiRequest, BoundsWhatEveryPromptGetsACopyOf) {
  OpenAiLimits limits = kLimits;
  limits.max_repeated_bytes = 1000;
  const auto parse = [&](const std::string& prompt, const std::string& member) {
    return ParseOpenAiRequest(OpenAiEndpoint::kCompletions,
                              R"({"prompt":)" + prompt + "," + member + "}", limits);
  };
  const std::string long_text(400, 'x');
  for (const std::string& member :
       {"\"stop\":\"" + long_text + "\"", "\"bad_words\":[\"" + long_text + "\"]"}) {
    EXPECT_EQ(Refused(parse(R"(["a","b","c"])", member)).param, "prompt");
    Accepted(parse(R"("a")", member));
  }
  const std::string named = R"("tools":[{"type":"function","function":{"name":")";
  EXPECT_EQ(Refused(ParseChat(Chat(named + std::string(257, 'x') + "\"}}]"))).param, "tools");
}

TEST(OpenAiRequest, TakesTheLastOfEqualMembersAndNulAsACharacter) {
  const OpenAiRequest body =
      Accepted(ParseChat(Chat(R"("temperature":0.5,"temperature":0.25,"stop":"a\u0000b")")));
  EXPECT_EQ(body.request.sampling.temperature, 0.25f);
  EXPECT_THAT(body.request.stops, ElementsAre(std::string("a\0b", 3)));
  EXPECT_EQ(Refused(ParseChat(Chat(std::string("\"user\":\"a\0b\"", 12)))).code, "invalid_json");
}

TEST(OpenAiRequest, RefusesWhatIsNoBody) {
  const std::string deep(100'000, '[');
  for (const std::string& text :
       {std::string("{bad"), std::string(), std::string("[]"), std::string("7"), deep,
        std::string("{}{}"), std::string("{\"a\":\"\\ud800\"}"), std::string("{\"a\":\"\xff\"}"),
        std::string(R"({"temperature":NaN})")}) {
    const ApiError error = Refused(ParseChat(text));
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.code, "invalid_json");
  }
  EXPECT_EQ(Refused(ParseChat(Chat("\"user\":\"" + std::string(1 << 20, 'x') + "\""))).status, 413);
}

TEST(OpenAiRequest, RefusesMessagesThatAreNone) {
  for (const char* body :
       {"{}", R"({"messages":[]})", R"({"messages":"hi"})", R"({"messages":[1]})",
        R"({"messages":[{"role":"wizard","content":"x"}]})", R"({"messages":[{"content":"x"}]})",
        R"({"messages":[{"role":"user"}]})",
        R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})"}) {
    const ApiError error = Refused(ParseChat(body));
    EXPECT_EQ(error.status, 400) << body;
    EXPECT_EQ(error.param, "messages") << body;
  }
}

TEST(OpenAiRequest, ListsWhatItDoesNotKnow) {
  std::string members = R"("foo":1,"tab\tbed":2)";
  EXPECT_THAT(Accepted(ParseChat(Chat(members))).ignored, ElementsAre("foo", "tab\\tbed"));
  // Members of the other endpoint are unknown to this one.
  EXPECT_THAT(Accepted(ParseChat(Chat(R"("prompt":"x","foo":true)"))).ignored,
              ElementsAre("prompt", "foo"));
  for (int i = 0; i < 1000; ++i) members += ",\"x" + std::to_string(i) + "\":1";
  EXPECT_EQ(Accepted(ParseChat(Chat(members))).ignored.size(), 16u);
}

TEST(OpenAiRequest, KnowsItsPaths) {
  EXPECT_EQ(EndpointOf("/v1/chat/completions"), OpenAiEndpoint::kChatCompletions);
  EXPECT_EQ(EndpointOf("/v1/completions"), OpenAiEndpoint::kCompletions);
  EXPECT_FALSE(EndpointOf("/v1/embeddings"));
}

TEST(ApiError, HasTheFormOfOpenAisErrors) {
  const auto json = boost::json::parse(ToJson(ApiErrorOf(
      MakeError(ErrorCode::kContextLength, "600 tokens, but the context has 512"), "prompt")));
  const auto& error = json.at("error").as_object();
  EXPECT_EQ(error.at("message").as_string(), "600 tokens, but the context has 512");
  EXPECT_EQ(error.at("type").as_string(), "invalid_request_error");
  EXPECT_EQ(error.at("param").as_string(), "prompt");
  EXPECT_EQ(error.at("code").as_string(), "context_length_exceeded");
  const auto bare = boost::json::parse(ToJson(ApiError{.message = "m"}));
  EXPECT_TRUE(bare.at("error").at("param").is_null());
  EXPECT_TRUE(bare.at("error").at("code").is_null());
}

TEST(ApiError, MapsCodesToStatuses) {
  EXPECT_EQ(HttpStatusOf(ErrorCode::kInvalidArgument), 400);
  EXPECT_EQ(HttpStatusOf(ErrorCode::kContextLength), 400);
  EXPECT_EQ(HttpStatusOf(ErrorCode::kNotFound), 404);
  EXPECT_EQ(HttpStatusOf(ErrorCode::kResourceExhausted), 429);
  EXPECT_EQ(HttpStatusOf(ErrorCode::kNumeric), 500);
  EXPECT_EQ(ApiErrorOf(MakeError(ErrorCode::kIo, "x")).type, "server_error");
}

}  // namespace
}  // namespace quire
