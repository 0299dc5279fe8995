// Answers in pieces, clients that read slowly, and clients that go away.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <thread>
#include <vector>

#include "server/support/http_fixture.h"
#include "support/sanitizers.h"

namespace quire::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

using HttpStream = HttpFixture;

TEST_F(HttpStream, PiecesArriveAsTheyAreWritten) {
  StartServer();
  RawClient client(port());
  client.Send(MakeRequest("GET", "/stream") + MakeRequest("POST", "/echo", "", "next"));
  const Call call = NextCall();
  call.exchange->BeginStream({.content_type = "text/event-stream", .body = "data: 1\n\n"});
  std::string head = client.ReadBytes(1);
  while (head.find("\r\n\r\n") == std::string::npos && head.size() < 1000) {
    head += client.ReadBytes(1);
  }
  EXPECT_THAT(head, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(head, HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_EQ(client.ReadBytes(14), "9\r\ndata: 1\n\n\r\n");
  EXPECT_TRUE(client.IsSilentFor(milliseconds(20)));
  call.exchange->Write("data: 22\n\n");
  EXPECT_EQ(client.ReadBytes(15), "a\r\ndata: 22\n\n\r\n");
  call.exchange->Write("");
  EXPECT_TRUE(client.IsSilentFor(milliseconds(20)));
  call.exchange->EndStream();
  EXPECT_EQ(client.ReadBytes(5), "0\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer()->body, "next");
}

TEST_F(HttpStream, ToHttp10ItIsRawUntilTheConnectionCloses) {
  StartServer();
  RawClient client(port());
  client.Send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const Call call = NextCall();
  call.exchange->BeginStream({.body = "ab"});
  call.exchange->Write("cd");
  call.exchange->EndStream();
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "abcd");
  EXPECT_EQ(answer->header("Connection"), "close");
  EXPECT_EQ(answer->header("Transfer-Encoding"), "");
}

TEST_F(HttpStream, WritesFromManyThreadsArriveInOrder) {
  StartServer();
  constexpr int kNumStreams = 8;
  constexpr int kNumPieces = 500;
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<RawClient>> clients;
  std::string expected;
  for (int i = 0; i < kNumPieces; ++i) expected += std::to_string(i) + ",";
  for (int i = 0; i < kNumStreams; ++i) {
    clients.push_back(std::make_unique<RawClient>(port()));
    clients.back()->Send(MakeRequest("GET", "/stream"));
    threads.emplace_back([exchange = NextCall().exchange] {
      exchange->BeginStream({});
      for (int piece = 0; piece < kNumPieces; ++piece) exchange->Write(std::to_string(piece) + ",");
      exchange->EndStream();
    });
  }
  for (const auto& client : clients) {
    const auto answer = client->ReadAnswer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->body, expected);
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(HttpStream, ARequestThatIsGivenUpHasAnAnswer) {
  StartServer();
  RawClient client(port());
  client.Send(MakeRequest("GET", "/x"));
  NextCall();
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 500);
  EXPECT_THAT(answer->body, HasSubstr(R"("type":"server_error")"));
}

TEST_F(HttpStream, AStreamThatIsGivenUpHasNoRightEnd) {
  StartServer();
  RawClient client(port());
  client.Send(MakeRequest("GET", "/x"));
  {
    const Call call = NextCall();
    call.exchange->BeginStream({.body = "some"});
  }
  const auto bytes = client.ReadToEnd();
  ASSERT_TRUE(bytes);
  EXPECT_THAT(*bytes, HasSubstr("some"));
  EXPECT_EQ(bytes->find("0\r\n\r\n"), std::string::npos);
}

// How a client goes, and what it was doing.
struct Leaving {
  const char* name;
  void (*leave)(RawClient&);
  bool is_streaming;
  bool has_sent_ahead;
};

class HttpGone : public HttpFixture, public ::testing::WithParamInterface<Leaving> {};

TEST_P(HttpGone, IsNoticedAtOnce) {
  StartServer();
  RawClient client(port());
  client.Send(MakeRequest("GET", "/x") +
              (GetParam().has_sent_ahead ? MakeRequest("GET", "/y") : ""));
  const Call call = NextCall();
  Event gone;
  call.exchange->OnGone([&] { gone.Raise(); });
  if (GetParam().is_streaming) {
    call.exchange->BeginStream({.body = "x"});
    client.ReadBytes(100);
  }
  EXPECT_FALSE(gone.WaitFor(milliseconds(10)));
  const auto begin = steady_clock::now();
  GetParam().leave(client);
  EXPECT_TRUE(gone.WaitFor());
  if (!kHasSanitizer) {
    EXPECT_LT(steady_clock::now() - begin, milliseconds(1'000));
  }
  EXPECT_TRUE(WaitForConnections(0));
  // What comes after is dropped, and a callback that comes after is called at once.
  Event late;
  call.exchange->OnGone([&] { late.Raise(); });
  EXPECT_EQ(late.count(), 1);
  if (!GetParam().is_streaming) call.exchange->BeginStream({});
  call.exchange->Write("dropped");
  call.exchange->EndStream();
  EXPECT_EQ(gone.count(), 1);
  EXPECT_FALSE(HasCallWithin(milliseconds(5)));
}

constexpr Leaving kLeavings[] = {
    {"ClosingWhileWaiting", [](RawClient& client) { client.Close(); }, false, false},
    {"ClosingWhileStreaming", [](RawClient& client) { client.Close(); }, true, false},
    {"ResettingWhileWaiting", [](RawClient& client) { client.Reset(); }, false, false},
    {"ResettingWhileStreaming", [](RawClient& client) { client.Reset(); }, true, false},
    {"ClosingTheSendingHalf", [](RawClient& client) { client.CloseSendingHalf(); }, false, false},
    {"ClosingWithARequestAhead", [](RawClient& client) { client.Close(); }, true, true},
    {"ResettingWithARequestAhead", [](RawClient& client) { client.Reset(); }, false, true},
};
INSTANTIATE_TEST_SUITE_P(Clients, HttpGone, ::testing::ValuesIn(kLeavings),
                         [](const auto& info) { return info.param.name; });

TEST_F(HttpStream, AClientThatIsFarAheadIsStillMissed) {
  StartServer({.idle_timeout = milliseconds(100)});  // looks often
  RawClient client(port());
  client.Send(MakeRequest("GET", "/x") + MakeRequest("POST", "/y", "", std::string(100'000, 'x')));
  const Call call = NextCall();
  Event gone;
  call.exchange->OnGone([&] { gone.Raise(); });
  EXPECT_FALSE(gone.WaitFor(milliseconds(40)));
  client.Close();
  EXPECT_TRUE(gone.WaitFor());
}

TEST_F(HttpStream, AnAnsweredClientIsNotGone) {
  StartServer();
  Event gone;
  RawClient client(port());
  client.Send(MakeRequest("GET", "/x"));
  const Call call = NextCall();
  call.exchange->OnGone([&] { gone.Raise(); });
  call.exchange->Respond({});
  client.Close();
  EXPECT_TRUE(WaitForConnections(0));
  call.exchange->OnGone([&] { gone.Raise(); });
  EXPECT_EQ(gone.count(), 0);
}

TEST_F(HttpStream, TheCallbackMayHoldTheExchange) {
  StartServer();
  RawClient client(port());
  client.Send(MakeRequest("GET", "/x"));
  Event gone;
  std::weak_ptr<HttpExchange> held;
  {
    Call call = NextCall();
    held = call.exchange;
    call.exchange->OnGone([exchange = call.exchange, &gone]() mutable {
      exchange->Respond({});
      exchange.reset();
      gone.Raise();
    });
  }
  client.Close();
  EXPECT_TRUE(gone.WaitFor());
  EXPECT_TRUE(WaitForConnections(0));
  EXPECT_TRUE(held.expired());
}

TEST_F(HttpStream, AReaderTooSlowForItsStreamIsGone) {
  StartServer({.max_unsent_bytes = 100'000});
  RawClient client(port(), "127.0.0.1", 4096);
  client.Send(MakeRequest("GET", "/stream"));
  const Call call = NextCall();
  Event gone;
  call.exchange->OnGone([&] { gone.Raise(); });
  call.exchange->BeginStream({});
  size_t written = 0;
  while (gone.count() == 0 && written < (size_t{100} << 20)) {
    call.exchange->Write(std::string(10'000, 'x'));
    written += 10'000;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  EXPECT_EQ(gone.count(), 1);
  EXPECT_TRUE(WaitForConnections(0));
}

TEST_F(HttpStream, TellsAWriterHowMuchWaitsForItsReader) {
  StartServer({.max_unsent_bytes = 64 << 20});
  RawClient client(port(), "127.0.0.1", 4096);
  client.Send(MakeRequest("GET", "/x"));
  const Call call = NextCall();
  EXPECT_EQ(call.exchange->unsent_bytes(), 0u);
  // Some megabytes may lie in the sockets, and one write of what is left under way.
  constexpr size_t kBytes = size_t{16} << 20;
  call.exchange->BeginStream({.body = std::string(kBytes, 'x')});
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_GT(call.exchange->unsent_bytes(), kBytes / 4);
  std::thread reader([&] { client.ReadBytes(kBytes); });
  for (int i = 0; i < 4000 && call.exchange->unsent_bytes() > 0; ++i) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(call.exchange->unsent_bytes(), 0u);
  reader.join();
}

TEST_F(HttpStream, AReaderThatTakesNothingTimesOut) {
  StartServer({.max_unsent_bytes = 64 << 20, .write_timeout = milliseconds(100)});
  RawClient client(port(), "127.0.0.1", 4096);
  client.Send(MakeRequest("GET", "/x"));
  const Call call = NextCall();
  Event gone;
  call.exchange->OnGone([&] { gone.Raise(); });
  call.exchange->BeginStream({.body = std::string(16 << 20, 'x')});
  EXPECT_TRUE(gone.WaitFor());
}

TEST_F(HttpStream, ASlowReaderDelaysNobody) {
  StartServer({.max_unsent_bytes = 256 << 20});
  constexpr int kNumFast = 64;
  constexpr size_t kNumPieces = 50;
  constexpr size_t kSlowBytes = 200'000;
  RawClient slow(port(), "127.0.0.1", 4096);
  slow.Send(MakeRequest("GET", "/slow"));
  const Call slow_call = NextCall();
  slow_call.exchange->BeginStream({});
  std::vector<std::unique_ptr<RawClient>> clients;
  std::vector<Call> calls;
  for (int i = 0; i < kNumFast; ++i) {
    clients.push_back(std::make_unique<RawClient>(port()));
    clients.back()->Send(MakeRequest("GET", "/fast"));
    calls.push_back(NextCall());
    calls.back().exchange->BeginStream({});
  }
  // Far more than the slow one's socket holds, before anything of the others.
  for (size_t piece = 0; piece < kNumPieces; ++piece) {
    slow_call.exchange->Write(std::string(kSlowBytes, 's'));
    for (const Call& call : calls) call.exchange->Write("data: token\n\n");
  }
  for (const Call& call : calls) call.exchange->EndStream();
  for (const auto& client : clients) {
    const auto answer = client->ReadAnswer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->body.size(), 13u * kNumPieces);
  }
  slow_call.exchange->EndStream();
  const auto answer = slow.ReadAnswer();  // in its own time, whole
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body.size(), kSlowBytes * kNumPieces);
}

// How often the network thread has gone to sleep and was woken: asked on it.
int64_t NetworkWakeUps(HttpServer& server) {
  Event done;
  int64_t wake_ups = 0;
  server.network().Post([&] {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    wake_ups = usage.ru_nvcsw;
    done.Raise();
  });
  done.WaitFor();
  return wake_ups;
}

TEST_F(HttpStream, ThePiecesOfAStepWakeTheNetworkOnce) {
  StartServer();
  constexpr int kNumStreams = 64;
  constexpr int kNumSteps = 50;
  std::vector<std::unique_ptr<RawClient>> clients;
  std::vector<Call> calls;
  for (int i = 0; i < kNumStreams; ++i) {
    clients.push_back(std::make_unique<RawClient>(port()));
    clients.back()->Send(MakeRequest("GET", "/x"));
    calls.push_back(NextCall());
    calls.back().exchange->BeginStream({.content_type = "text/event-stream"});
  }
  const int64_t before = NetworkWakeUps(*server_);
  for (int step = 0; step < kNumSteps; ++step) {
    // As a step of the engine does: one task that writes all its pieces.
    server_->network().Post([&] {
      for (const Call& call : calls) call.exchange->Write(std::string(200, 'x'));
    });
    std::this_thread::sleep_for(milliseconds(2));
  }
  // Some for the task and what it posts, none for each of the 64 pieces.
  EXPECT_LT(NetworkWakeUps(*server_) - before, 8 * kNumSteps);
  for (const Call& call : calls) call.exchange->EndStream();
}

TEST_F(HttpStream, AnIdleServerSleeps) {
  StartServer();
  RawClient idle(port());
  idle.Send(MakeRequest("POST", "/echo", "", "x"));
  ASSERT_TRUE(idle.ReadAnswer());
  const int64_t before = NetworkWakeUps(*server_);
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_LT(NetworkWakeUps(*server_) - before, 10);
}

}  // namespace
}  // namespace quire::testing
