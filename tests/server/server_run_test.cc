// The server as a whole, over sockets.
#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "server/support/raw_client.h"
#include "server/support/serving_rig.h"

namespace quire::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

class ServerRunTest : public ::testing::Test {
 protected:
  void Listen(ServerOptions options = {}) {
    options.http.port = 0;
    options.log.level = LogLevel::kOff;
    auto server = Server::Listen(std::move(options));
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
  }
  // Says a, b, a, b, ... A slow one says other things, and takes milliseconds for each.
  void Serve(bool is_slow = false, const SpeculationOptions& speculation = {}) {
    if (!server_) Listen();
    const auto path = directory_.path() / "rig.gguf";
    std::vector<std::string> pieces = {"a", "b"};
    for (int i = 0; is_slow && i < 700; ++i) pieces.push_back(fmt::format("{} ", i));
    WriteScriptModel(path, pieces, /*repeats=*/true);
    auto engine = Engine::Create(
        path,
        {.runner = {.num_threads = 1}, .speculation = speculation, .trace = &server_->live()});
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    server_->Serve(std::move(*engine), {.id = "rig", .created = 7});
  }
  RawAnswer Ask(const std::string& method, const std::string& path, const std::string& body = "") {
    RawClient client(server_->port());
    client.Send(MakeRequest(method, path, "", body));
    const auto answer = client.ReadAnswer();
    EXPECT_TRUE(answer.has_value()) << path;
    return answer.value_or(RawAnswer{});
  }
  static std::string Body(int max_tokens, bool stream) {
    return fmt::format(R"({{"prompt":"?","temperature":0,"max_tokens":{},"stream":{}}})",
                       max_tokens, stream);
  }
  double Metric(const std::string& name) {
    const std::string text = Ask("GET", "/metrics").body;
    const size_t at = text.find("\n" + name + "{");
    return at == std::string::npos ? -1
                                   : std::strtod(text.c_str() + text.find("} ", at) + 2, nullptr);
  }

  ScratchDirectory directory_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerRunTest, BeforeTheModelIsThereOnlyLifeIsTold) {
  Listen();
  EXPECT_EQ(Ask("GET", "/live").status, 200);
  for (const char* path : {"/health", "/v1/models", "/metrics", "/v1/chat/completions"}) {
    const RawAnswer answer = Ask("GET", path);
    EXPECT_EQ(answer.status, 503) << path;
    EXPECT_EQ(answer.header("Retry-After"), "1");
    EXPECT_EQ(Json(answer.body).at("error").at("code"), "model_loading");
  }
  Serve();
  for (const char* path : {"/live", "/health", "/v1/models", "/metrics"}) {
    EXPECT_EQ(Ask("GET", path).status, 200) << path;
  }
  const RawAnswer first = Ask("POST", "/v1/completions", Body(3, false));
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(AnswerText(first.body), "aba");
}

TEST_F(ServerRunTest, StreamsGoOutInEventsAndAnswersOneAfterTheOther) {
  Serve();
  RawClient client(server_->port());
  for (int i = 0; i < 3; ++i) {
    client.Send(MakeRequest("POST", "/v1/completions", "", Body(4, true)));
    const auto streamed = client.ReadAnswer();
    ASSERT_TRUE(streamed);
    EXPECT_THAT(streamed->header("Content-Type"), HasSubstr("text/event-stream"));
    EXPECT_EQ(StreamedText(streamed->body), "abab");
    EXPECT_EQ(Events(streamed->body).back(), "[DONE]");
    EXPECT_THAT(streamed->header("X-Request-Id"), Not(""));
  }
}

TEST_F(ServerRunTest, CountsDraftsAmongTheTokensOfAStep) {
  Serve(/*is_slow=*/false, {.type = SpeculationType::kNgram, .drafts_always = true});
  EXPECT_EQ(Ask("POST", "/v1/completions", Body(40, false)).status, 200);
  // Each token but the last was fed, in fewer steps.
  EXPECT_LT(Metric("vllm:iteration_tokens_total_count"), 30);
  EXPECT_GE(Metric("vllm:iteration_tokens_total_sum"), 40);
}

TEST_F(ServerRunTest, ManyAtOnceGetTheirOwnAnswers) {
  Serve();
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      for (int i = 0; i < 10; ++i) {
        const int length = 1 + (thread * 10 + i) % 23;
        const RawAnswer answer = Ask("POST", "/v1/completions", Body(length, i % 2 == 0));
        EXPECT_EQ(answer.status, 200);
        const std::string text = i % 2 == 0 ? StreamedText(answer.body) : AnswerText(answer.body);
        EXPECT_EQ(text.size(), static_cast<size_t>(length));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(Metric("vllm:num_requests_running"), 0);
  EXPECT_EQ(Metric("vllm:kv_cache_usage_perc"), 0);
}

TEST_F(ServerRunTest, AClientThatClosesLeavesNothingBehind) {
  Serve();
  for (int i = 0; i < 10; ++i) {
    RawClient client(server_->port());
    client.Send(MakeRequest("POST", "/v1/completions", "", Body(500, i % 2 == 0)));
    if (i % 3 == 0) client.ReadBytes(200);
    client.Close();
  }
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (Metric("vllm:num_requests_running") + Metric("vllm:num_requests_waiting") > 0 &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(Metric("vllm:num_requests_running"), 0);
  EXPECT_EQ(Metric("vllm:kv_cache_usage_perc"), 0);
  EXPECT_EQ(Ask("POST", "/v1/completions", Body(2, false)).status, 200);
}

TEST_F(ServerRunTest, DrainLetsAStreamEndAndTakesNoMore) {
  Serve(/*is_slow=*/true);
  const int port = server_->port();
  RawClient client(port);
  client.Send(MakeRequest("POST", "/v1/completions", "", Body(60, true)));
  ASSERT_FALSE(client.ReadBytes(20).empty());
  EXPECT_TRUE(server_->Drain(20s));
  const auto all = client.ReadToEnd();
  ASSERT_TRUE(all.has_value());
  EXPECT_THAT(*all, HasSubstr(R"("finish_reason":"length")"));
  EXPECT_THAT(*all, HasSubstr("data: [DONE]"));
  RawClient late(port);
  if (late.is_connected()) {
    late.Send(MakeRequest("GET", "/health"));
    EXPECT_FALSE(late.ReadAnswer().has_value());
  }
}

TEST_F(ServerRunTest, WhatIsUnderWayAtTheDrainsDeadlineIsToldSo) {
  Serve(/*is_slow=*/true);
  RawClient stream(server_->port());
  stream.Send(MakeRequest("POST", "/v1/completions", "", Body(450, true)));
  RawClient whole(server_->port());
  whole.Send(MakeRequest("POST", "/v1/completions", "", Body(450, false)));
  ASSERT_FALSE(stream.ReadBytes(20).empty());
  while (Metric("vllm:num_requests_running") < 2) std::this_thread::yield();
  EXPECT_FALSE(server_->Drain(1ms));
  const auto all = stream.ReadToEnd();
  ASSERT_TRUE(all.has_value());
  EXPECT_THAT(*all, HasSubstr("shutting_down"));
  EXPECT_THAT(*all, HasSubstr("data: [DONE]"));
  const auto answer = whole.ReadAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, 503);
}

TEST_F(ServerRunTest, AnIdleServerDrainsAtOnce) {
  Serve();
  EXPECT_EQ(Ask("GET", "/health").status, 200);
  RawClient idle(server_->port());
  idle.Send(MakeRequest("GET", "/live"));
  ASSERT_TRUE(idle.ReadAnswer());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(server_->Drain(20s));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST_F(ServerRunTest, ThePageIsServedAndToldWhatHappens) {
  Serve();
  const RawAnswer page = Ask("GET", "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.body, HasSubstr("<!DOCTYPE html>"));
  EXPECT_THAT(page.header("Content-Security-Policy"), HasSubstr("script-src 'sha256-"));
  RawClient again(server_->port());
  again.Send(MakeRequest("GET", "/", "If-None-Match: " + page.header("ETag") + "\r\n"));
  const auto unchanged = again.ReadAnswer(/*is_head=*/true);
  ASSERT_TRUE(unchanged);
  EXPECT_EQ(unchanged->status, 304);

  RawClient listener(server_->port());
  listener.Send(MakeRequest("GET", "/quire/events"));
  std::string told = listener.ReadBytes(1);
  const auto read_until = [&](const std::string& text) {
    while (told.find(text) == std::string::npos) {
      const std::string more = listener.ReadBytes(1);
      if (more.empty()) break;
      told += more;
    }
    EXPECT_THAT(told, HasSubstr(text));
  };
  read_until("event: snapshot");
  EXPECT_EQ(Ask("POST", "/v1/completions", Body(3, false)).status, 200);
  read_until(R"("event":"end")");
  while (!told.ends_with("\n\n\r\n") && told.size() < 100'000) told += listener.ReadBytes(1);
  EXPECT_TRUE(listener.IsSilentFor(300ms)) << "nothing happens, and nothing is said";
}

TEST_F(ServerRunTest, DrainEndsTheStreamsOfThePage) {
  Serve();
  RawClient listener(server_->port());
  listener.Send(MakeRequest("GET", "/quire/events"));
  ASSERT_FALSE(listener.ReadBytes(100).empty());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(server_->Drain(20s));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  const auto all = listener.ReadToEnd();
  ASSERT_TRUE(all.has_value());
  EXPECT_TRUE(all->ends_with("0\r\n\r\n")) << "a right end";
}

TEST_F(ServerRunTest, AServerWithoutAModelDrains) {
  Listen();
  EXPECT_TRUE(server_->Drain(20s));
}

TEST_F(ServerRunTest, EndsWithRequestsUnderWay) {
  Serve();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port()));
    clients.back()->Send(MakeRequest("POST", "/v1/completions", "", Body(500, i % 2 == 0)));
  }
  server_.reset();
  for (const auto& client : clients) client->ReadToEnd();
}

}  // namespace
}  // namespace quire::testing
