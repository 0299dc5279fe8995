#include "kv/tiers/redis/resp_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/redis_server.h"

namespace quire {
namespace {

using testing::ConnectTo;
using ::testing::HasSubstr;
using testing::In;
using testing::ScriptedServer;
using Peer = ScriptedServer::Peer;

// What one command ends with against a server that answers its first bytes so.
struct Ended {
  RespFault fault = RespFault::kNone;
  std::string reason{};
  std::string text{};
  double ms = 0;
};
Ended Ask(const std::function<void(Peer&)>& answer, int deadline_ms = 10'000,
          const RespCancelled& cancelled = {}) {
  ScriptedServer server([&](Peer& peer) {
    if (!peer.Read().empty()) answer(peer);
  });
  auto connection = ConnectTo(server.socket(), {.max_reply_bytes = size_t{1} << 20});
  const auto begun = std::chrono::steady_clock::now();
  RespReply reply;
  connection->Send({"GET", "x"});
  Ended ended = {.fault = connection->Receive(In(deadline_ms), cancelled, &reply)};
  ended.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count();
  ended.reason = connection->reason();
  ended.text = reply.text;
  EXPECT_EQ(connection->is_broken(), ended.fault != RespFault::kNone);
  EXPECT_EQ(connection->IsIdle(), ended.fault == RespFault::kNone);
  return ended;
}

TEST(RespConnection, TakesAnAnswer) {
  const Ended ended = Ask([](Peer& peer) {
    peer.Write("$5\r\nhello\r\n");
    peer.Read();
  });
  EXPECT_EQ(ended.fault, RespFault::kNone) << ended.reason;
  EXPECT_EQ(ended.text, "hello");
}

TEST(RespConnection, EndsByItsDeadlineWhereBytesComeOneByOne) {
  const Ended ended = Ask(
      [](Peer& peer) {
        peer.Write("$100000\r\n");
        while (peer.Write("x") && peer.Wait(10)) {
        }
      },
      100);
  EXPECT_EQ(ended.fault, RespFault::kTimeout);
  EXPECT_THAT(ended.reason, HasSubstr("not whole in time"));
  EXPECT_GE(ended.ms, 100);
}

TEST(RespConnection, EndsByItsDeadlineWhereNothingComes) {
  const Ended ended = Ask([](Peer& peer) { peer.Read(); }, 50);
  EXPECT_EQ(ended.fault, RespFault::kTimeout);
  EXPECT_THAT(ended.reason, HasSubstr("no answer in time"));
}

TEST(RespConnection, EndsWhereABulkIsAnnouncedThatNeverEnds) {
  const Ended ended = Ask([](Peer& peer) {
    peer.Write("$536870912\r\n");
    const std::string bytes(size_t{1} << 16, 'x');
    while (peer.Write(bytes)) {
    }
  });
  EXPECT_EQ(ended.fault, RespFault::kProtocol);
  EXPECT_THAT(ended.reason, HasSubstr("more than 1048576 bytes"));
}

TEST(RespConnection, EndsWhereArraysNestWithoutEnd) {
  const Ended ended = Ask([](Peer& peer) {
    while (peer.Write("*1\r\n")) {
    }
  });
  EXPECT_EQ(ended.fault, RespFault::kProtocol);
}

TEST(RespConnection, NamesAnotherProgram) {
  const Ended ended =
      Ask([](Peer& peer) { peer.Write("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"); });
  EXPECT_EQ(ended.fault, RespFault::kProtocol);
  EXPECT_THAT(ended.reason, HasSubstr("not the Redis protocol"));
}

TEST(RespConnection, NamesAConnectionThatWasClosed) {
  for (const char* half : {"", "$10\r\nhalf"}) {
    const Ended ended = Ask([&](Peer& peer) { peer.Write(half); });
    EXPECT_EQ(ended.fault, RespFault::kLost);
    EXPECT_THAT(ended.reason, HasSubstr("closed"));
  }
}

TEST(RespConnection, GivesUpSoonAfterItIsCancelled) {
  int num_asked = 0;
  const Ended ended = Ask([](Peer& peer) { peer.Read(); }, 60'000, [&] { return ++num_asked > 3; });
  EXPECT_EQ(ended.fault, RespFault::kCancelled);
}

TEST(RespConnection, IsNotIdleWhereTheServerSaysMoreThanItWasAsked) {
  ScriptedServer server([](Peer& peer) {
    peer.Read();
    peer.Write("+OK\r\n+MORE\r\n");
    peer.Read();
  });
  auto connection = ConnectTo(server.socket());
  RespReply reply;
  connection->Send({"PING"});
  ASSERT_EQ(connection->Receive(In(10'000), {}, &reply), RespFault::kNone);
  // Both came in one piece, or the second is on its way.
  for (int i = 0; i < 1000 && connection->IsIdle(); ++i) std::this_thread::yield();
  EXPECT_FALSE(connection->IsIdle());
}

TEST(RespConnection, IsNotIdleOnceTheServerHasClosedIt) {
  ScriptedServer server([](Peer& peer) {
    peer.Read();
    peer.Write("+OK\r\n");
  });
  auto connection = ConnectTo(server.socket());
  RespReply reply;
  connection->Send({"PING"});
  ASSERT_EQ(connection->Receive(In(10'000), {}, &reply), RespFault::kNone);
  const auto end = In(10'000);
  while (connection->IsIdle() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_FALSE(connection->IsIdle());
}

TEST(RespConnection, WritesMoreThanTheSystemTakesAtOnce) {
  ScriptedServer server([](Peer& peer) {
    size_t num_bytes = 0;
    while (num_bytes < (size_t{8} << 20)) {
      const std::string some = peer.Read();
      if (some.empty()) return;
      num_bytes += some.size();
    }
    peer.Write(":" + std::to_string(num_bytes >> 20) + "\r\n");
    peer.Read();
  });
  auto connection = ConnectTo(server.socket());
  RespReply reply;
  connection->Send({"SET", "x", std::string(size_t{8} << 20, 'v')});
  ASSERT_EQ(connection->Receive(In(60'000), {}, &reply), RespFault::kNone) << connection->reason();
  EXPECT_EQ(reply.integer, 8);
}

TEST(RespConnection, DoesNotConnectWhereNobodyListens) {
  ScratchDirectory directory;
  EXPECT_EQ(ConnectTo((directory.path() / "nobody").string()), nullptr);
}

}  // namespace
}  // namespace quire
