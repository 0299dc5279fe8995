// Completions through the routes, apart from how a stream is cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>

#include "server/routes/completion_log.h"
#include "server/support/serving_rig.h"

namespace quire::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kChat = "/v1/chat/completions";

class CompletionTest : public ::testing::Test {
 protected:
  void Letters(RigOptions options = {}) {
    rig_.reset();
    const auto path = directory_.path() / "rig.gguf";
    WriteLettersModel(path);
    rig_ = std::make_unique<ServingRig>(path, options);
  }

  ScratchDirectory directory_;
  std::unique_ptr<ServingRig> rig_;
};

TEST_F(CompletionTest, AnswersSayTheServedModelWhateverNameWasUsed) {
  Letters();
  for (const char* name : {R"("model":"rig",)", R"("model":"other-name",)", R"("model":"",)", ""}) {
    const auto client =
        rig_->Ask(kCompletions, fmt::format(R"({{{}"prompt":"?","max_tokens":2}})", name));
    EXPECT_EQ(client->status(), 200) << client->body();
    EXPECT_EQ(Json(client->body()).at("model"), "rig");
  }
}

TEST_F(CompletionTest, AnUnknownModelIsNotFoundAndTheServedOnesAreNamed) {
  Letters();
  const auto client = rig_->Ask(kChat, R"({"model":"gpt-x","messages":[{"role":"user",)"
                                       R"("content":"?"}]})");
  EXPECT_EQ(client->status(), 404);
  const auto error = Json(client->body()).at("error").as_object();
  EXPECT_EQ(error.at("code"), "model_not_found");
  EXPECT_EQ(error.at("param"), "model");
  EXPECT_THAT(client->body(), HasSubstr("rig, other-name"));
}

TEST_F(CompletionTest, FieldsThatNobodyKnowsAreNamedInAHeader) {
  Letters();
  for (const char* stream : {"false", "true"}) {
    const auto client = rig_->Ask(
        kCompletions, fmt::format(R"({{"prompt":"?","max_tokens":1,"stream":{},"wibble":1,)"
                                  R"("w\u00f6bble":2}})",
                                  stream));
    EXPECT_EQ(client->status(), 200);
    const HttpResponse response = client->response();
    const std::string* header = FindHeader(response.headers, "X-Quire-Ignored-Fields");
    ASSERT_NE(header, nullptr);
    EXPECT_THAT(*header, HasSubstr("wibble"));
    for (const char c : *header) EXPECT_TRUE(c >= ' ' && c <= '~');
  }
}

TEST_F(CompletionTest, ABodyIsAnsweredWholeOrNotAtAll) {
  Letters();
  // The second prompt is longer than the context.
  const auto client =
      rig_->Ask(kCompletions,
                fmt::format(R"({{"prompt":["?","{}"],"max_tokens":4}})", std::string(600, '?')));
  EXPECT_EQ(client->status(), 400);
  EXPECT_THAT(client->body(), HasSubstr("context_length_exceeded"));
  EXPECT_TRUE(rig_->WaitUntilIdle());
  EXPECT_EQ(rig_->engine().status().counters.generated_tokens, 0);
}

TEST_F(CompletionTest, RepliesWithoutASeedDiffer) {
  Letters();
  const std::string body = R"({"prompt":"?","max_tokens":12})";
  std::set<std::string> texts;
  for (int i = 0; i < 10; ++i) texts.insert(AnswerText(rig_->Ask(kCompletions, body)->body()));
  std::vector<std::shared_ptr<FakeClient>> clients;
  for (int i = 0; i < 10; ++i) clients.push_back(rig_->Post(kCompletions, body));
  for (const auto& client : clients) {
    ASSERT_TRUE(client->WaitForEnd());
    texts.insert(AnswerText(client->body()));
  }
  EXPECT_EQ(texts.size(), 20u);
}

TEST_F(CompletionTest, ASeedGivesThreeChoicesTwice) {
  Letters();
  const std::string body = R"({"prompt":"?","n":3,"seed":7,"max_tokens":8})";
  const auto first = rig_->Ask(kCompletions, body);
  const auto second = rig_->Ask(kCompletions, body);
  std::set<std::string> texts;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(AnswerText(first->body(), i), AnswerText(second->body(), i));
    texts.insert(AnswerText(first->body(), i));
  }
  EXPECT_EQ(texts.size(), 3u);
}

TEST_F(CompletionTest, BeyondTheQueueLimitRequestsAreRefusedAtOnceAndNoneIsLost) {
  constexpr int kRequests = 100;
  Letters({.engine = {.scheduler = {.max_sequences = 2}}, .limits = {.max_queued = 10}});
  rig_->steps().Shut();
  std::vector<std::shared_ptr<FakeClient>> clients;
  for (int i = 0; i < kRequests; ++i) {
    clients.push_back(rig_->Post(kCompletions, R"({"prompt":"?","max_tokens":3})"));
  }
  // All but the first, which may be in a step, meet the engine between two steps.
  rig_->steps().Open();
  int served = 0;
  int refused = 0;
  for (const auto& client : clients) {
    ASSERT_TRUE(client->WaitForEnd());
    if (client->status() == 200) {
      ++served;
      continue;
    }
    ++refused;
    EXPECT_EQ(client->status(), 429);
    EXPECT_THAT(client->body(), HasSubstr("rate_limit_exceeded"));
    EXPECT_NE(FindHeader(client->response().headers, "Retry-After"), nullptr);
  }
  EXPECT_EQ(served + refused, kRequests);
  EXPECT_GE(served, 12);
  EXPECT_TRUE(rig_->WaitUntilIdle());
}

TEST_F(CompletionTest, WhatCanNeverFitIsRefusedAtOnceAndTheRestTakesTurns) {
  // Ten blocks of 16: eleven never fit, two of nine go one after the other.
  const auto path = directory_.path() / "rig.gguf";
  WriteLettersModel(path);
  auto probe = Engine::Create(path, {.runner = {.num_threads = 1}});
  ASSERT_TRUE(probe.ok());
  const size_t block_bytes = (*probe)->cache().layout().block_bytes;
  probe->reset();
  rig_ = std::make_unique<ServingRig>(
      path, RigOptions{.engine = {.runner = {.kv_bytes = 10 * block_bytes}}});
  ASSERT_EQ(rig_->engine().status().kv.total_blocks, 10);
  const auto ask = [&](int num_prompt, int max_tokens) {
    return rig_->Post(kCompletions,
                      fmt::format(R"({{"prompt":"{}","max_tokens":{}}})",
                                  std::string(static_cast<size_t>(num_prompt), '?'), max_tokens));
  };
  const auto never = ask(11 * 16 - 1, 1);
  ASSERT_TRUE(never->WaitForEnd());
  EXPECT_EQ(never->status(), 400) << never->body();
  const auto one = ask(8 * 16, 16);
  const auto other = ask(8 * 16, 15);
  std::vector<std::shared_ptr<FakeClient>> four;
  for (int i = 0; i < 4; ++i) four.push_back(ask(20 + i, 4));
  for (const auto& client : {one, other, four[0], four[1], four[2], four[3]}) {
    ASSERT_TRUE(client->WaitForEnd());
    EXPECT_EQ(client->status(), 200) << client->body();
  }
  EXPECT_TRUE(rig_->WaitUntilIdle());
}

TEST_F(CompletionTest, EqualPrefixesHitWithinATenantAndNotBeyondASalt) {
  Letters();
  const std::string prompt(200, '?');
  const auto cached = [&](const std::string& members) {
    const auto client = rig_->Ask(
        kCompletions, fmt::format(R"({{"prompt":"{}","max_tokens":1{}}})", prompt, members));
    return Json(client->body())
        .at("usage")
        .at("prompt_tokens_details")
        .at("cached_tokens")
        .as_int64();
  };
  EXPECT_EQ(cached(""), 0);
  EXPECT_GE(cached(""), 192);
  EXPECT_EQ(cached(R"(,"cache_salt":"mine")"), 0);
  EXPECT_GE(cached(R"(,"cache_salt":"mine")"), 192);
}

TEST_F(CompletionTest, TwoTenantsShareNoBlock) {
  auto tenants = Tenants::FromJson(R"({"keys":[{"key":"sk-first-tenant-0001","name":"one"},)"
                                   R"({"key":"sk-second-tenant-0002","name":"two"}]})");
  ASSERT_TRUE(tenants.ok()) << tenants.error().message;
  Letters({.tenants = *tenants});
  const std::string body =
      fmt::format(R"({{"prompt":"{}","max_tokens":1}})", std::string(100, '?'));
  const auto cached = [&](const std::string& key) {
    const auto client = rig_->Ask(kCompletions, body, {{"Authorization", "Bearer " + key}});
    EXPECT_EQ(client->status(), 200) << client->body();
    return Json(client->body())
        .at("usage")
        .at("prompt_tokens_details")
        .at("cached_tokens")
        .as_int64();
  };
  EXPECT_EQ(cached("sk-first-tenant-0001"), 0);
  EXPECT_GE(cached("sk-first-tenant-0001"), 96);
  EXPECT_EQ(cached("sk-second-tenant-0002"), 0);
}

TEST_F(CompletionTest, SumsOfUsageAreTheCounters) {
  Letters();
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  for (const char* body :
       {R"({"prompt":["?","???"],"n":2,"max_tokens":3})", R"({"prompt":"??","max_tokens":5})",
        R"({"prompt":"????","echo":true,"max_tokens":0,"logprobs":1})"}) {
    const auto client = rig_->Ask(kCompletions, body);
    ASSERT_EQ(client->status(), 200) << client->body();
    const auto usage = Json(client->body()).at("usage").as_object();
    prompt_tokens += usage.at("prompt_tokens").as_int64();
    completion_tokens += usage.at("completion_tokens").as_int64();
  }
  EXPECT_EQ(prompt_tokens, 1 + 3 + 2 + 4);
  EXPECT_EQ(completion_tokens, 12 + 5);
  EXPECT_EQ(rig_->Metric("vllm:prompt_tokens_total"), static_cast<double>(prompt_tokens));
  EXPECT_EQ(rig_->Metric("vllm:generation_tokens_total"), static_cast<double>(completion_tokens));
}

TEST_F(CompletionTest, TheLogHasALineForEachRequestAndNoTextUnlessAsked) {
  for (const bool shows_text : {false, true}) {
    const auto file = directory_.path() / "log";
    const int descriptor = ::open(file.c_str(), O_CREAT | O_TRUNC | O_RDWR, 0600);
    ASSERT_GE(descriptor, 0);
    Letters({.log = {.shows_text = shows_text, .descriptor = descriptor}});
    const std::string prompt = "zyxwvutsrq";
    const std::string members = fmt::format(R"("prompt":"{}","max_tokens":3,"seed":1)", prompt);
    const std::string answer = AnswerText(rig_->Ask(kCompletions, "{" + members + "}")->body());
    rig_->Ask(kCompletions, "{" + members + R"(,"stream":true})");
    rig_->Ask(kCompletions, "{" + members + R"(,"n":"no"})");
    rig_->EndLog();
    std::ifstream in(file);
    std::string text((std::istreambuf_iterator<char>(in)), {});
    ::close(descriptor);
    EXPECT_EQ(text.find(prompt) != std::string::npos, shows_text) << text;
    EXPECT_EQ(text.find(answer) != std::string::npos, shows_text) << text;
    int num_requests = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const auto entry = Json(line);
      if (entry.at("event") != "request") continue;
      ++num_requests;
      EXPECT_EQ(entry.at("status"), 200);
      EXPECT_EQ(entry.at("prompt_tokens"), 10);
      EXPECT_EQ(entry.at("completion_tokens"), 3);
      EXPECT_EQ(entry.at("finish_reason"), "length");
    }
    EXPECT_EQ(num_requests, 2);
  }
}

TEST_F(CompletionTest, TheLogTellsWhatTiersBroughtAndWhyNotMore) {
  const auto file = directory_.path() / "log";
  const int descriptor = ::open(file.c_str(), O_CREAT | O_TRUNC | O_RDWR, 0600);
  ASSERT_GE(descriptor, 0);
  Letters({.log = {.descriptor = descriptor}});
  const Tenant tenant{.name = "a"};
  PromptAnswer answer;
  answer.result.cached_tokens = 90;
  answer.result.cached_by_tier = {.memory = 20, .disk = 40, .remote = 30};
  answer.result.tier_wait_ms = 12.5;
  answer.result.miss = {.reason = MissReason::kTierDown,
                        .tier = "remote",
                        .detail = "connection refused",
                        .down_for_ms = 3000};
  RouteCall call;
  call.caller = {.tenant = &tenant, .request_id = "r-1"};
  const std::vector<PromptAnswer> answers = {answer, PromptAnswer()};
  LogCompletion(rig_->context(), call, answers, {.status = 200});
  LogCompletion(rig_->context(), call, {}, {.status = 499});
  rig_->EndLog();
  std::ifstream in(file);
  std::string line;
  ASSERT_TRUE(std::getline(in, line));
  const auto entry = Json(line);
  EXPECT_EQ(entry.at("cached_tokens"), 90);
  EXPECT_EQ(entry.at("cached_from_disk"), 40);
  EXPECT_EQ(entry.at("cached_from_remote"), 30);
  EXPECT_EQ(entry.at("tier_wait_ms").to_number<double>(), 12.5);
  EXPECT_EQ(entry.at("miss"), "the remote tier has been down for 3.0 s: connection refused");
  ASSERT_TRUE(std::getline(in, line));
  for (const char* name : {"cached_from_disk", "cached_from_remote", "tier_wait_ms", "miss"}) {
    EXPECT_FALSE(Json(line).contains(name)) << name;
  }
  ::close(descriptor);
}

TEST_F(CompletionTest, ARequestThatHasANameGivesItToItsAnswer) {
  Letters();
  const auto client =
      rig_->Ask(kCompletions, R"({"prompt":"?","max_tokens":1,"request_id":"mine-17"})");
  EXPECT_EQ(Json(client->body()).at("id"), "cmpl-mine-17");
}

TEST_F(CompletionTest, MalformedBodiesAreRefusedInTheFormOfErrors) {
  Letters();
  for (const char* body : {"", "{", "[]", "null", R"({"prompt":1})", R"({"prompt":"?","n":"x"})",
                           R"({"prompt":"?","max_tokens":-1})", "\xff\xfe"}) {
    const auto client = rig_->Ask(kCompletions, body);
    EXPECT_EQ(client->status(), 400) << body;
    EXPECT_TRUE(Json(client->body()).at("error").at("message").is_string());
  }
  const auto client = rig_->Ask(kCompletions, R"({"prompt":"?","max_tokens":2})");
  EXPECT_EQ(client->status(), 200);
}

TEST_F(CompletionTest, AServerThatStopsRefusesWhatComesAfter) {
  Letters();
  rig_->engine().Stop();
  const auto client = rig_->Ask(kCompletions, R"({"prompt":"?","max_tokens":2})");
  EXPECT_EQ(client->status(), 503);
  EXPECT_NE(FindHeader(client->response().headers, "Retry-After"), nullptr);
}

TEST_F(CompletionTest, RenderShowsTextAndIdsAndComputesNothing) {
  Letters();
  const auto chat =
      rig_->Ask("/v1/chat/completions/render", R"({"messages":[{"role":"user","content":"?ab"}]})");
  EXPECT_EQ(chat->status(), 200) << chat->body();
  EXPECT_THAT(chat->body(), HasSubstr("?ab"));
  EXPECT_THAT(chat->body(), HasSubstr("[1,2,3]"));
  const auto plain = rig_->Ask("/v1/completions/render", R"({"prompt":["a","b?"]})");
  EXPECT_THAT(plain->body(), HasSubstr("[3,1]"));
  EXPECT_EQ(rig_->engine().status().counters.steps, 0);
  const auto refused = rig_->Ask("/v1/completions/render", R"({"prompt":[]})");
  EXPECT_EQ(refused->status(), 400);
}

TEST_F(CompletionTest, EmbeddingsComeOneAnInputInOrder) {
  Letters();
  const auto client =
      rig_->Ask("/v1/embeddings", R"({"input":["?","ab","?"],"encoding_format":"float"})");
  ASSERT_EQ(client->status(), 200) << client->body();
  const auto answer = Json(client->body());
  const auto& data = answer.at("data").as_array();
  ASSERT_EQ(data.size(), 3u);
  EXPECT_EQ(data[0].at("embedding"), data[2].at("embedding"));
  EXPECT_NE(data[0].at("embedding"), data[1].at("embedding"));
  double squares = 0;
  for (const auto& value : data[1].at("embedding").as_array()) {
    squares += value.to_number<double>() * value.to_number<double>();
  }
  EXPECT_NEAR(squares, 1, 1e-5);
  EXPECT_EQ(answer.at("usage").at("prompt_tokens"), 4);
  EXPECT_TRUE(rig_->WaitUntilIdle());
}

}  // namespace
}  // namespace quire::testing
