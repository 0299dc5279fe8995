// Listening, draining, stopping, and many connections at once.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "server/support/http_fixture.h"

namespace quire::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

Error ListenError(const HttpOptions& options) {
  const auto server = HttpServer::Listen(options);
  EXPECT_FALSE(server.ok());
  return server.ok() ? Error{} : server.error();
}

using HttpListen = HttpFixture;

TEST_F(HttpListen, APortInUseIsRefusedByNameAndReason) {
  StartServer();
  for (const char* host : {"127.0.0.1", "0.0.0.0", "localhost"}) {
    const Error error = ListenError({.host = host, .port = port()});
    EXPECT_EQ(error.code, ErrorCode::kIo);
    EXPECT_THAT(error.message,
                AllOf(HasSubstr(fmt::format("{}:{}", host, port())), HasSubstr("in use")));
  }
}

TEST_F(HttpListen, WhatIsNoAddressIsRefusedAtOnce) {
  for (const char* host : {"256.1.1.1", "", "1.2.3", "::g", "no such host", "[::1"}) {
    const auto begin = std::chrono::steady_clock::now();
    const Error error = ListenError({.host = host, .port = 0});
    EXPECT_TRUE(error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kIo) << host;
    EXPECT_THAT(error.message, HasSubstr(host));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << host;
  }
  EXPECT_EQ(ListenError({.port = 65'536}).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ListenError({.port = -1}).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ListenError({.host = "192.0.2.1", .port = 0}).code, ErrorCode::kIo);
  EXPECT_EQ(ListenError({.port = 0, .max_connections = 0}).code, ErrorCode::kInvalidArgument);
}

TEST_F(HttpListen, APrivilegedPortIsRefusedWithoutRights) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may";
  const Error error = ListenError({.port = 80});
  EXPECT_EQ(error.code, ErrorCode::kIo);
  EXPECT_THAT(error.message, HasSubstr("80"));
}

TEST_F(HttpListen, SpeaksIPv6) {
  auto probe = HttpServer::Listen({.host = "::1", .port = 0});
  if (!probe.ok()) GTEST_SKIP() << probe.error().message;
  StartServer({.host = "[::1]"});
  EXPECT_EQ(server_->url(), fmt::format("http://[::1]:{}", port()));
  RawClient client(port(), "::1");
  client.Send(MakeRequest("GET", "/x"));
  EXPECT_THAT(NextCall().request.remote, ::testing::StartsWith("[::1]:"));
}

TEST_F(HttpListen, ANameIsListenedOn) {
  StartServer({.host = "localhost"});
  EXPECT_EQ(server_->url(), fmt::format("http://localhost:{}", port()));
  ExpectServes();
}

TEST_F(HttpListen, ARestartTakesTheSamePort) {
  StartServer();
  const int old_port = port();
  RawClient client(port());
  client.Send(MakeRequest("POST", "/echo", "", "x"));
  client.ReadAnswer();
  server_.reset();  // closes first: its side of the connection lingers in the system
  EXPECT_TRUE(HttpServer::Listen({.port = old_port}).ok());
}

TEST_F(HttpListen, ConnectionsWaitForTheStart) {
  auto server = HttpServer::Listen({.port = 0});
  ASSERT_TRUE(server.ok());
  RawClient client((*server)->port());
  client.Send(MakeRequest("GET", "/x"));
  EXPECT_TRUE(client.IsSilentFor(milliseconds(20)));
  (*server)->Start([](const HttpRequest&, const std::shared_ptr<HttpExchange>& exchange) {
    exchange->Respond({.body = "started"});
  });
  EXPECT_EQ(client.ReadAnswer()->body, "started");
}

using HttpConnections = HttpFixture;

TEST_F(HttpConnections, TwoHundredAtOnce) {
  StartServer();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 200; ++i) clients.push_back(std::make_unique<RawClient>(port()));
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < clients.size(); ++i) {
      clients[i]->Send(MakeRequest("POST", "/echo", "", std::to_string(i)));
    }
    for (size_t i = 0; i < clients.size(); ++i) {
      const auto answer = clients[i]->ReadAnswer();
      ASSERT_TRUE(answer) << i;
      EXPECT_EQ(answer->body, std::to_string(i));
    }
  }
  EXPECT_EQ(server_->counters().connections_open, 200);
  clients.clear();
  EXPECT_TRUE(WaitForConnections(0));
}

TEST_F(HttpConnections, ThoseBeyondTheLimitWaitForAFreeOne) {
  StartServer({.max_connections = 2});
  auto first = std::make_unique<RawClient>(port());
  auto second = std::make_unique<RawClient>(port());
  ASSERT_TRUE(WaitForConnections(2));
  RawClient third(port());
  third.Send(MakeRequest("POST", "/echo", "", "third"));
  EXPECT_TRUE(third.IsSilentFor(milliseconds(30)));
  first.reset();
  EXPECT_EQ(third.ReadAnswer()->body, "third");
}

TEST_F(HttpConnections, TakesThemAgainWhenDescriptorsAreBack) {
  StartServer();
  ExpectServes();
  RawClient client(port());  // its own descriptor is there; the server's may not be
  ASSERT_TRUE(WaitForConnections(1));
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  std::vector<int> taken;
  const int probe = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const rlimit few{.rlim_cur = static_cast<rlim_t>(probe) + 8, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  for (int next = probe; next >= 0; next = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
    taken.push_back(next);
  }
  ::close(taken.back());
  taken.pop_back();
  RawClient waiting(port());  // takes the last
  waiting.Send(MakeRequest("POST", "/echo", "", "waited"));
  EXPECT_TRUE(waiting.IsSilentFor(milliseconds(30)));
  for (const int descriptor : taken) ::close(descriptor);
  ::setrlimit(RLIMIT_NOFILE, &before);
  const auto answer = waiting.ReadAnswer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "waited");
}

using HttpDrain = HttpFixture;

TEST_F(HttpDrain, FinishesWhatIsUnderWayAndTakesNothingMore) {
  StartServer();
  RawClient idle(port());
  idle.Send(MakeRequest("POST", "/echo", "", "x"));
  ASSERT_TRUE(idle.ReadAnswer());
  RawClient waiting(port());
  waiting.Send(MakeRequest("GET", "/wait") + MakeRequest("GET", "/never"));
  const Call wait = NextCall();
  RawClient streaming(port());
  streaming.Send(MakeRequest("GET", "/stream"));
  const Call stream = NextCall();
  stream.exchange->BeginStream({.body = "a"});
  Event drained;
  server_->Drain([&] { drained.Raise(); });
  EXPECT_TRUE(idle.IsClosedWithin(milliseconds(5'000)));
  EXPECT_FALSE(RawClient(port()).is_connected());
  EXPECT_FALSE(drained.WaitFor(milliseconds(20)));
  wait.exchange->Respond({.body = "done"});
  const auto answer = waiting.ReadAnswer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "done");
  EXPECT_EQ(answer->header("Connection"), "close");
  waiting.Close();
  EXPECT_FALSE(drained.WaitFor(milliseconds(20)));
  stream.exchange->Write("b");
  stream.exchange->EndStream();
  EXPECT_EQ(streaming.ReadAnswer()->body, "ab");
  EXPECT_TRUE(streaming.IsClosedWithin(milliseconds(5'000)));
  EXPECT_TRUE(drained.WaitFor());
  EXPECT_FALSE(HasCallWithin(milliseconds(1)));
}

TEST_F(HttpDrain, AnIdleServerIsDrainedAtOnce) {
  StartServer();
  Event drained;
  server_->Drain([&] { drained.Raise(); });
  EXPECT_TRUE(drained.WaitFor());
}

TEST_F(HttpDrain, ABodyOnItsWayIsStillAnswered) {
  StartServer();
  RawClient client(port());
  client.Send(MakeRequest("POST", "/echo", "Content-Length: 4\r\n") + "ab");
  RawClient half_head(port());
  half_head.Send("POST /echo HT");
  ASSERT_TRUE(WaitForConnections(2));
  std::this_thread::sleep_for(milliseconds(20));
  Event drained;
  server_->Drain([&] { drained.Raise(); });
  EXPECT_TRUE(half_head.IsClosedWithin(milliseconds(5'000)));
  client.Send("cd");
  EXPECT_EQ(client.ReadAnswer()->body, "abcd");
  EXPECT_TRUE(drained.WaitFor());
}

using HttpStop = HttpFixture;

TEST_F(HttpStop, EndsEveryConnectionAndExchangesOutliveIt) {
  StartServer();
  std::vector<std::unique_ptr<RawClient>> clients;
  std::vector<Call> calls;
  Event gone;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<RawClient>(port()));
    clients.back()->Send(MakeRequest("GET", "/x"));
    calls.push_back(NextCall());
    calls.back().exchange->OnGone([&] { gone.Raise(); });
    if (i % 2 == 0) calls.back().exchange->BeginStream({.body = std::string(1 << 20, 'x')});
  }
  std::thread writer([calls] {
    for (int i = 0; i < 100; ++i) calls[0].exchange->Write("x");
  });
  server_->Stop();
  server_->Stop();
  EXPECT_EQ(gone.count(), 20);
  writer.join();
  TaskQueue& network = server_->network();
  network.Post([] { ADD_FAILURE() << "a task after the end"; });
  server_.reset();
  for (size_t i = 0; i < calls.size(); ++i) {
    if (i % 2 == 1) calls[i].exchange->Respond({});
  }
  calls.clear();
  for (const auto& client : clients) EXPECT_TRUE(client->ReadToEnd());
}

TEST_F(HttpStop, WithoutAStartItJustEnds) {
  auto server = HttpServer::Listen({.port = 0});
  ASSERT_TRUE(server.ok());
  (*server)->network().Post([] {});
  (*server)->Stop();
}

TEST_F(HttpStop, TasksRunInOrderAndLaterOnesLater) {
  StartServer();
  std::vector<int> order;
  Event done;
  server_->PostAfter(milliseconds(40), [&] {
    order.push_back(6);
    done.Raise();
  });
  server_->PostAfter(milliseconds(10), [&] { order.push_back(5); });
  server_->network().Post([&] {
    order.push_back(1);
    server_->network().Post([&] { order.push_back(4); });
  });
  for (int i = 2; i < 4; ++i) server_->network().Post([&order, i] { order.push_back(i); });
  EXPECT_TRUE(done.WaitFor());
  server_->PostAfter(std::chrono::hours(1), [] {});  // does not hold up the end
  server_->Stop();
  // What a task posts comes after what was posted before it ran; 2 and 3 may have come later.
  EXPECT_THAT(order, ::testing::UnorderedElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(order.front(), 1);
  EXPECT_EQ(order.back(), 6);
  EXPECT_EQ(order[4], 5);
}

}  // namespace
}  // namespace quire::testing
