// Streams through the routes, and the faults that other servers' streams are known for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "server/support/serving_rig.h"

namespace quire::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using namespace std::chrono_literals;

constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kChat = "/v1/chat/completions";

class StreamTest : public ::testing::Test {
 protected:
  void Script(const std::vector<std::string>& pieces, bool repeats = false,
              RigOptions options = {}) {
    rig_.reset();
    WriteScriptModel(Path(), pieces, repeats);
    rig_ = std::make_unique<ServingRig>(Path(), options);
  }
  void Letters(RigOptions options = {}) {
    rig_.reset();
    WriteLettersModel(Path());
    rig_ = std::make_unique<ServingRig>(Path(), options);
  }
  std::filesystem::path Path() const { return directory_.path() / "rig.gguf"; }

  // A body of either endpoint that asks "?", with these members beside.
  static std::string Body(const std::string& path, bool stream, const std::string& members = "") {
    const char* ask =
        path == kChat ? R"("messages":[{"role":"user","content":"?"}])" : R"("prompt":"?")";
    return fmt::format(R"({{{},"temperature":0,"stream":{}{}{}}})", ask, stream,
                       members.empty() ? "" : ",", members);
  }
  std::string Stream(const std::string& path, const std::string& members = "") {
    const auto client = rig_->Ask(path, Body(path, true, members));
    EXPECT_EQ(client->status(), 200) << client->body();
    EXPECT_TRUE(client->is_stream());
    return client->body();
  }
  std::string Answer(const std::string& path, const std::string& members = "") {
    const auto client = rig_->Ask(path, Body(path, false, members));
    EXPECT_EQ(client->status(), 200) << client->body();
    EXPECT_FALSE(client->is_stream());
    return client->body();
  }

  ScratchDirectory directory_;
  std::unique_ptr<ServingRig> rig_;
};

TEST_F(StreamTest, AChatBeginsWithTheRoleAndEndsWithDone) {
  Script({"a", "b", "c"});
  const auto client = rig_->Ask(kChat, Body(kChat, true, R"("max_tokens":10)"));
  EXPECT_THAT(client->response().content_type, StartsWith("text/event-stream"));
  const auto events = Events(client->body());
  const auto& first = events.front().at("choices").at(0).at("delta").as_object();
  EXPECT_EQ(first.at("role"), "assistant");
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(StreamedText(client->body()), "abc");
  for (const auto& chunk : Chunks(client->body())) {
    EXPECT_EQ(chunk.at("id"), events.front().at("id"));
    EXPECT_EQ(chunk.at("object"), "chat.completion.chunk");
    EXPECT_EQ(chunk.at("model"), "rig");
  }
}

TEST_F(StreamTest, ACharacterThatSeveralTokensMakeComesWhole) {
  // The ids 8508 43720 50292 of Qwen2.5 are half a character, its end with another, and a third.
  const std::string text = "\xE5\xAE\xA2\xE5\x8D\x95\xE4\xBB\xB7\xF0\x9F\x91\xA8";
  Script({text.substr(0, 2), text.substr(2, 4), text.substr(6, 3), text.substr(9, 1),
          text.substr(10, 3)});
  for (const char* path : {kChat, kCompletions}) {
    const std::string body = Stream(path, R"("max_tokens":10)");
    EXPECT_EQ(StreamedText(body), text);
    EXPECT_THAT(body, Not(HasSubstr("\xEF\xBF\xBD")));
  }
  const std::string logged = Stream(kChat, R"("max_tokens":10,"logprobs":true)");
  EXPECT_EQ(StreamedText(logged), text);
  std::string bytes;
  for (const auto& chunk : Chunks(logged)) {
    const auto& entry = chunk.at("choices").at(0).as_object();
    const auto* log_probs = entry.if_contains("logprobs");
    if (log_probs == nullptr || !log_probs->is_object()) continue;
    for (const auto& token : log_probs->at("content").as_array()) {
      for (const auto& byte : token.at("bytes").as_array()) {
        bytes += static_cast<char>(byte.as_int64());
      }
    }
  }
  EXPECT_THAT(bytes, StartsWith(text));
}

TEST_F(StreamTest, AnAnswerThatEndsInMidCharacterIsTheSameStreamedAndWhole) {
  Script({"\xF0", "\x9F", "x"});
  for (const char* path : {kChat, kCompletions}) {
    for (const char* members : {R"("max_tokens":1)", R"("max_tokens":2)"}) {
      const std::string streamed = Stream(path, members);
      const std::string whole = Answer(path, members);
      EXPECT_EQ(StreamedText(streamed), AnswerText(whole));
      EXPECT_THAT(FinishReasons(streamed), ElementsAre("length"));
    }
  }
}

TEST_F(StreamTest, AStopStringOverSeveralTokensIsNeverSent) {
  Script({"al", "pha be", "ta gam", "ma", "never"});
  for (const char* path : {kChat, kCompletions}) {
    const char* members = R"("max_tokens":10,"stop":["beta gamma"])";
    const std::string streamed = Stream(path, members);
    EXPECT_EQ(StreamedText(streamed), "alpha ");
    EXPECT_THAT(FinishReasons(streamed), ElementsAre("stop"));
    const std::string whole = Answer(path, members);
    EXPECT_EQ(AnswerText(whole), "alpha ");
  }
}

TEST_F(StreamTest, ExactlyOneChunkSaysHowTheAnswerEnded) {
  Script({"a", "b", "c"});
  for (const char* path : {kChat, kCompletions}) {
    EXPECT_THAT(FinishReasons(Stream(path, R"("max_tokens":10)")), ElementsAre("stop"));
    EXPECT_THAT(FinishReasons(Stream(path, R"("max_tokens":2)")), ElementsAre("length"));
    EXPECT_THAT(FinishReasons(Stream(path, R"("max_tokens":10,"stop":"b")")), ElementsAre("stop"));
    EXPECT_EQ(Events(Stream(path)).back(), "[DONE]");
  }
}

TEST_F(StreamTest, UsageComesOnceWhereAskedForAndEqualsTheWholeAnswers) {
  Script({"a", "b", "c"});
  for (const char* path : {kChat, kCompletions}) {
    const auto whole = Json(Answer(path, R"("max_tokens":10)")).at("usage").as_object();
    const auto chunks =
        Chunks(Stream(path, R"("max_tokens":10,"stream_options":{"include_usage":true})"));
    for (size_t i = 0; i + 1 < chunks.size(); ++i) EXPECT_TRUE(chunks[i].at("usage").is_null());
    EXPECT_TRUE(chunks.back().at("choices").as_array().empty());
    const auto& usage = chunks.back().at("usage").as_object();
    for (const char* name : {"prompt_tokens", "completion_tokens", "total_tokens"}) {
      EXPECT_EQ(usage.at(name), whole.at(name));
    }
    EXPECT_EQ(usage.at("total_tokens").as_int64(), 1 + 4);
    for (const auto& chunk : Chunks(Stream(path))) {
      const auto* none = chunk.if_contains("usage");
      EXPECT_TRUE(none == nullptr || none->is_null());
    }
  }
}

TEST_F(StreamTest, AnEmptyWishIsNoWishForUsage) {
  Script({"a"});
  for (const char* options : {"{}", "null", R"({"include_usage":false})"}) {
    for (const auto& chunk :
         Chunks(Stream(kChat, fmt::format(R"("stream_options":{})", options)))) {
      EXPECT_EQ(chunk.if_contains("usage"), nullptr);
      EXPECT_FALSE(chunk.at("choices").as_array().empty());
    }
  }
  const auto refused =
      rig_->Ask(kChat, Body(kChat, false, R"("stream_options":{"include_usage":true})"));
  EXPECT_EQ(refused->status(), 400);
  EXPECT_THAT(refused->body(), HasSubstr(R"("param":"stream_options")"));
}

TEST_F(StreamTest, AClientThatGoesFreesItsBlocksWithinAStep) {
  Script({"a", "b"}, /*repeats=*/true, {.engine = {.scheduler = {.max_sequences = 1}}});
  rig_->steps().ShutAfter(8);
  const auto gone = rig_->Post(kCompletions, Body(kCompletions, true, R"("max_tokens":400)"));
  while (StreamedText(gone->body()).size() < 8) std::this_thread::yield();
  gone->Go();
  // The step under way ends; the next one has nothing of it.
  int64_t used = -1;
  std::thread opener([this] {
    std::this_thread::sleep_for(5ms);
    rig_->steps().Open();
  });
  int64_t generated = -1;
  rig_->OnEngine([&](Engine& engine) {
    used = engine.cache().usage().used_blocks;
    generated = engine.counters().generated_tokens;
  });
  opener.join();
  EXPECT_EQ(used, 0);
  EXPECT_LE(generated, 9);
  const auto next = rig_->Ask(kCompletions, Body(kCompletions, true, R"("max_tokens":3)"));
  EXPECT_EQ(StreamedText(next->body()), "aba");
  EXPECT_TRUE(rig_->WaitUntilIdle());
  rig_->OnEngine(
      [&](Engine& engine) { EXPECT_EQ(engine.counters().generated_tokens, generated + 3); });
}

TEST_F(StreamTest, AClientThatGoesWhileQueuedOrUnreadLeavesNothing) {
  Script({"a", "b"}, /*repeats=*/true, {.engine = {.scheduler = {.max_sequences = 1}}});
  rig_->steps().Shut();
  const auto first = rig_->Post(kCompletions, Body(kCompletions, true, R"("max_tokens":50)"));
  const auto queued = rig_->Post(kChat, Body(kChat, false, R"("n":3,"max_tokens":50)"));
  const auto streamed = rig_->Post(kChat, Body(kChat, true, R"("max_tokens":50)"));
  const auto at_once = rig_->Post(kChat, Body(kChat, true));
  at_once->Go();
  queued->Go();
  streamed->Go();
  rig_->steps().Open();
  EXPECT_TRUE(first->WaitForEnd());
  EXPECT_EQ(StreamedText(first->body()).size(), 50u);
  EXPECT_TRUE(rig_->WaitUntilIdle());
}

TEST_F(StreamTest, AnErrorInMidStreamIsAnEventAndNoFinishReason) {
  Letters();
  // "a" alone may be said, and not twice in a row: the second draw has nothing left.
  const std::string members = R"("max_tokens":10,"allowed_token_ids":[2],"bad_words":["aa"])";
  for (const char* path : {kChat, kCompletions}) {
    const auto whole = rig_->Ask(path, Body(path, false, members));
    EXPECT_GE(whole->status(), 400) << whole->body();
    const std::string body = Stream(path, members);
    EXPECT_EQ(StreamedText(body), "a");
    EXPECT_THAT(FinishReasons(body), IsEmpty());
    const auto events = Events(body);
    ASSERT_GE(events.size(), 2u);
    EXPECT_TRUE(events[events.size() - 2].at("error").at("message").is_string());
    EXPECT_EQ(events.back(), "[DONE]");
  }
  EXPECT_TRUE(rig_->WaitUntilIdle());
}

TEST_F(StreamTest, AServerThatStopsSaysSoToItsStreams) {
  Script({"a", "b"}, /*repeats=*/true);
  rig_->steps().ShutAfter(3);
  const auto client = rig_->Post(kChat, Body(kChat, true, R"("max_tokens":400)"));
  while (StreamedText(client->body()).size() < 3) std::this_thread::yield();
  std::thread stopper([this] { rig_->engine().Stop(); });
  while (rig_->engine().Post([](Engine&) {})) std::this_thread::yield();
  rig_->steps().Open();
  stopper.join();
  ASSERT_TRUE(client->WaitForEnd());
  const auto events = Events(client->body());
  EXPECT_THAT(FinishReasons(client->body()), IsEmpty());
  EXPECT_EQ(events[events.size() - 2].at("error").at("code"), "shutting_down");
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST_F(StreamTest, ADeadlineEndsAStreamWithAnErrorAndAnAnswerWith504) {
  Script({"a", "b"}, /*repeats=*/true, {.limits = {.request_timeout_ms = 30}});
  rig_->steps().Shut();
  const auto stream = rig_->Post(kChat, Body(kChat, true, R"("max_tokens":400)"));
  const auto answer = rig_->Post(kChat, Body(kChat, false, R"("max_tokens":400)"));
  std::this_thread::sleep_for(40ms);
  rig_->steps().Open();
  ASSERT_TRUE(answer->WaitForEnd());
  EXPECT_EQ(answer->status(), 504);
  EXPECT_THAT(answer->body(), HasSubstr("request_timeout"));
  EXPECT_EQ(*FindHeader(answer->response().headers, "x-should-retry"), "false");
  ASSERT_TRUE(stream->WaitForEnd());
  if (stream->is_stream()) {
    EXPECT_THAT(stream->body(), HasSubstr(R"({"error":)"));
    EXPECT_THAT(FinishReasons(stream->body()), IsEmpty());
  } else {
    EXPECT_EQ(stream->status(), 504);
  }
  EXPECT_TRUE(rig_->WaitUntilIdle());
}

TEST_F(StreamTest, TokensThatComeWhileTheNetworkIsBehindAreOneWrite) {
  Script({"a", "b", "c", "d", "e"});
  rig_->network_gate().Shut();
  const auto client = rig_->Post(kChat, Body(kChat, true, R"("max_tokens":10)"));
  bool has_finished = false;
  while (!has_finished) {
    rig_->OnEngine([&](Engine& engine) { has_finished = engine.counters().requests_finished > 0; });
  }
  rig_->network_gate().Open();
  ASSERT_TRUE(client->WaitForEnd());
  EXPECT_EQ(StreamedText(client->body()), "abcde");
  EXPECT_EQ(client->chunks().size(), 1u);
}

TEST_F(StreamTest, AStreamThatWaitsBeginsAtOnceAndGetsComments) {
  Script({"a", "b"}, /*repeats=*/true,
         {.engine = {.scheduler = {.max_sequences = 1}}, .limits = {.keep_alive_comment_ms = 1}});
  rig_->steps().Shut();
  const auto first = rig_->Post(kChat, Body(kChat, true, R"("max_tokens":5)"));
  const auto second = rig_->Post(kCompletions, Body(kCompletions, true, R"("max_tokens":5)"));
  const auto end = std::chrono::steady_clock::now() + 20s;
  const auto has_comment = [](const auto& client) {
    return client->body().find(": keep-alive\n\n") != std::string::npos;
  };
  // One of them may not have been taken before the gate shut the other's first step in: it has not
  // begun then.
  const auto one_has = [&] { return has_comment(first) || has_comment(second); };
  while (!one_has() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(2ms);
    rig_->RunTimers();
    EXPECT_LE(rig_->num_timers(), 1u);
  }
  EXPECT_TRUE(one_has());
  rig_->steps().Open();
  ASSERT_TRUE(first->WaitForEnd());
  ASSERT_TRUE(second->WaitForEnd());
  EXPECT_EQ(StreamedText(first->body()), "ababa");
  EXPECT_EQ(StreamedText(second->body()), "ababa");
  // Without streams the timer is not set again.
  for (int i = 0; i < 3; ++i) {
    rig_->RunTimers();
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(rig_->num_timers(), 0u);
}

TEST_F(StreamTest, ACallOfAToolComesAsOneAndItsMarkersNever) {
  WriteScriptModel(Path(),
                   {"Let", " me", "\n<tool", "_call>\n{\"name\": \"f\", ",
                    "\"arguments\": {\"x\": 1}}", "\n</tool_call>"},
                   false,
                   "{% for message in messages %}{{ message.content }}{% endfor %}"
                   "{% if false %}<tool_call></tool_call>{% endif %}");
  rig_ = std::make_unique<ServingRig>(Path());
  rig_->steps().ShutAfter(1);
  const auto client = rig_->Post(
      kChat, Body(kChat, true,
                  R"("max_tokens":20,"tools":[{"type":"function","function":{"name":"f"}}])"));
  // What is no call goes out as it comes.
  while (StreamedText(client->body()) != "Let" && !client->has_ended()) std::this_thread::yield();
  rig_->steps().Open();
  ASSERT_TRUE(client->WaitForEnd());
  const std::string body = client->body();
  EXPECT_EQ(StreamedText(body), "Let me");
  EXPECT_THAT(FinishReasons(body), ElementsAre("tool_calls"));
  std::string name;
  std::string arguments;
  int num_texts = 0;
  for (const auto& chunk : Chunks(body)) {
    const auto& delta = chunk.at("choices").at(0).at("delta").as_object();
    if (const auto* text = delta.if_contains("content"); text && text->is_string()) {
      num_texts += text->as_string().empty() ? 0 : 1;
    }
    const auto* calls = delta.if_contains("tool_calls");
    if (calls == nullptr) continue;
    const auto& function = calls->at(0).at("function").as_object();
    EXPECT_EQ(calls->at(0).at("index"), 0);
    if (const auto* part = function.if_contains("name")) name += part->as_string();
    if (const auto* part = function.if_contains("arguments")) arguments += part->as_string();
  }
  EXPECT_EQ(name, "f");
  EXPECT_EQ(Json(arguments).at("x"), 1);
  EXPECT_GE(num_texts, 2);
}

TEST_F(StreamTest, AllChoicesOfAllPromptsComeUnderTheirIndexes) {
  Letters();
  const std::string members =
      R"("prompt":["?","??"],"n":2,"seed":7,"temperature":1,"max_tokens":6)";
  const auto streamed = rig_->Ask(kCompletions, "{" + members + R"(,"stream":true})");
  const auto whole = rig_->Ask(kCompletions, "{" + members + "}");
  std::set<std::string> texts;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(StreamedText(streamed->body(), i), AnswerText(whole->body(), static_cast<size_t>(i)));
    EXPECT_THAT(FinishReasons(streamed->body(), i), ElementsAre("length"));
    texts.insert(StreamedText(streamed->body(), i));
  }
  EXPECT_EQ(texts.size(), 4u);
  const auto usage = Json(whole->body()).at("usage").as_object();
  EXPECT_EQ(usage.at("prompt_tokens"), 3);
  EXPECT_EQ(usage.at("completion_tokens"), 24);
}

TEST_F(StreamTest, AnswersUnderLoadAreThoseAlone) {
  constexpr int kJobs = 50;
  Letters({.engine = {.scheduler = {.max_sequences = 16}}});
  const auto body = [](int i, bool stream) {
    return fmt::format(R"({{"messages":[{{"role":"user","content":"{}"}}],"seed":{},)"
                       R"("max_tokens":{},"stream":{}}})",
                       std::string(static_cast<size_t>(1 + i % 20), '?'), i, 5 + i % 7, stream);
  };
  std::vector<std::string> alone;
  for (int i = 0; i < kJobs; ++i) {
    alone.push_back(AnswerText(rig_->Ask(kChat, body(i, false))->body()));
  }
  std::vector<std::shared_ptr<FakeClient>> clients(kJobs);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = thread; i < kJobs; i += 3) {
          clients[static_cast<size_t>(i)] = rig_->Post(kChat, body(i, i % 2 == 0));
        }
      });
    }
  }
  for (int i = 0; i < kJobs; ++i) {
    const auto& client = clients[static_cast<size_t>(i)];
    ASSERT_TRUE(client->WaitForEnd());
    EXPECT_EQ(i % 2 == 0 ? StreamedText(client->body()) : AnswerText(client->body()),
              alone[static_cast<size_t>(i)]);
  }
  EXPECT_TRUE(rig_->WaitUntilIdle());
}

}  // namespace
}  // namespace quire::testing
