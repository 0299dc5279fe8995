// The Redis tier over a server that refuses, is gone, is slow or is none.
#include <atomic>

#include "kv/tiers/redis/redis_fixture.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using testing::In;
using ::testing::Not;
using testing::RedisServer;
using testing::ScriptedServer;
using Peer = ScriptedServer::Peer;

class RedisOutage : public ::testing::Test {
 protected:
  void SetUp() override { QUIRE_SKIP_WITHOUT_REDIS(); }

  RedisTierOptions WithClock(RedisTierOptions options = {}) {
    options.now_ms = [this] { return now_ms_.load(); };
    return options;
  }
  std::atomic<double> now_ms_ = 1000;
};

TEST_F(RedisOutage, AServerThatIsNotThereIsNoErrorAndIsTriedAgain) {
  RedisServer server;
  server.Kill();
  const auto tier = Open(server.url(), WithClock());
  EXPECT_FALSE(tier->state().is_up);
  EXPECT_THAT(tier->state().reason, HasSubstr("connect"));
  EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kDown);
  EXPECT_EQ(Store(*tier, 1), StoreOutcome::kDown);
  EXPECT_EQ(tier->status().counters.times_down, 1);
  server.Start();
  now_ms_ = 1999;
  EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kDown);
  EXPECT_EQ(tier->state().down_for_ms, 999);
  now_ms_ = 2000;
  EXPECT_TRUE(tier->state().is_up) << "a trial is due";
  EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kAbsent);
  EXPECT_EQ(tier->state().reason, "");
  EXPECT_EQ(Store(*tier, 1), StoreOutcome::kStored);
}

TEST_F(RedisOutage, AServerThatIsKilledIsLeftAloneAfterThreeFailuresAndComesBackByItself) {
  RedisServer server;
  const auto tier = Open(server.url(), WithClock());
  ASSERT_EQ(Store(*tier, 1), StoreOutcome::kStored);
  server.Kill();
  for (int i = 0; i < kBreakerFailures; ++i) {
    EXPECT_TRUE(tier->state().is_up);
    EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kIo);
  }
  EXPECT_FALSE(tier->state().is_up);
  EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kDown);
  EXPECT_EQ(FaultCount(*tier, RecordFault::kIo), kBreakerFailures);
  EXPECT_FALSE(tier->MayHold(BlockOf(1).key())) << "it may have lost all it held";
  now_ms_ = 2000;  // a trial that fails: twice the rest
  EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kIo);
  now_ms_ = 3999;
  EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kDown);
  server.Start();
  now_ms_ = 4000;
  EXPECT_EQ(Store(*tier, 1), StoreOutcome::kStored);
  EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kNone);
}

TEST_F(RedisOutage, AServerThatWasRestartedBetweenTwoCallsIsNoFault) {
  RedisServer server;
  const auto tier = Open(server.url(), WithClock());
  ASSERT_EQ(Store(*tier, 1), StoreOutcome::kStored);
  server.Kill();
  server.Start();
  EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kAbsent);
  EXPECT_EQ(FaultCount(*tier, RecordFault::kIo), 0);
  EXPECT_EQ(Store(*tier, 1), StoreOutcome::kStored);
}

TEST_F(RedisOutage, APausedServerHoldsNobodyLongerThanTheDeadline) {
  RedisServer server;
  const auto tier = Open(server.url(), WithClock());
  ASSERT_EQ(Store(*tier, 1), StoreOutcome::kStored);
  server.Pause();
  for (int i = 0; i < kBreakerFailures; ++i) {
    EXPECT_EQ(LoadOne(*tier, 1, 100), RecordFault::kTimeout);
  }
  EXPECT_EQ(LoadOne(*tier, 1, kLongMs), RecordFault::kDown);
  EXPECT_EQ(FaultCount(*tier, RecordFault::kTimeout), kBreakerFailures);
  server.Continue();
  now_ms_ = 2000;
  EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kNone);
}

TEST_F(RedisOutage, AStoreIntoAPausedServerIsGivenUp) {
  RedisServer server;
  const auto tier = Open(server.url(), WithClock({.store_ms = 50}));
  server.Pause();
  EXPECT_EQ(Store(*tier, 1), StoreOutcome::kFailed);
  EXPECT_EQ(FaultCount(*tier, RecordFault::kTimeout), 1);
  server.Continue();
  EXPECT_EQ(Store(*tier, 1), StoreOutcome::kStored);
}

TEST_F(RedisOutage, AServerIsFoundByItsName) {
  RedisServer server;
  const auto tier =
      Open("redis://localhost:" + std::to_string(server.port()), {.connect_ms = kLongMs});
  EXPECT_TRUE(tier->state().is_up) << tier->state().reason;
  EXPECT_EQ(Store(*tier, 1), StoreOutcome::kStored);
}

TEST_F(RedisOutage, ANameThatNobodyHasIsDownWithTheReason) {
  const auto tier = Open("redis://no-such-host.invalid", WithClock({.connect_ms = 50}));
  EXPECT_FALSE(tier->state().is_up);
  EXPECT_THAT(tier->state().reason, HasSubstr("the address of no-such-host.invalid"));
}

TEST_F(RedisOutage, AWrongPasswordIsDownWithTheReason) {
  RedisServer server({"--requirepass", "right"});
  for (const char* credentials : {":wrong@", "nobody:right@", ""}) {
    const auto tier = Open(server.tcp_url(credentials), WithClock());
    EXPECT_FALSE(tier->state().is_up);
    EXPECT_THAT(tier->state().reason,
                ::testing::AnyOf(HasSubstr("WRONGPASS"), HasSubstr("NOAUTH")));
    EXPECT_THAT(tier->state().reason, Not(HasSubstr("right")));
    EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kDown);
  }
  EXPECT_TRUE(Open(server.tcp_url(":right@"))->state().is_up);
}

TEST_F(RedisOutage, AServerWithoutMemoryCanStillBeRead) {
  RedisServer server;
  const auto tier = Open(server.url(), WithClock());
  ASSERT_EQ(Store(*tier, 1), StoreOutcome::kStored);
  server.Ask({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_EQ(Store(*tier, 2), StoreOutcome::kFailed);
  EXPECT_TRUE(tier->state().is_up);
  EXPECT_THAT(tier->state().reason, HasSubstr("OOM"));
  EXPECT_EQ(FaultCount(*tier, RecordFault::kIo), 1);
  EXPECT_EQ(Store(*tier, 3), StoreOutcome::kDown) << "it rests from storing";
  EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kNone);
  server.Ask({"CONFIG", "SET", "maxmemory", "0"});
  now_ms_ = 2000;
  EXPECT_EQ(Store(*tier, 3), StoreOutcome::kStored);
  EXPECT_EQ(tier->state().reason, "");
}

TEST_F(RedisOutage, AReplicaCanBeReadAndSaysWhyItStoresNothing) {
  RedisServer server;
  const auto tier = Open(server.url(), WithClock({.ttl_s = 0}));
  ASSERT_EQ(Store(*tier, 1), StoreOutcome::kStored);
  // Of nobody: its data stays, and it takes no writes.
  server.Ask({"CONFIG", "SET", "replica-serve-stale-data", "yes"});
  server.Ask({"REPLICAOF", "127.0.0.1", "1"});
  EXPECT_EQ(Store(*tier, 2), StoreOutcome::kFailed);
  EXPECT_THAT(tier->state().reason, HasSubstr("READONLY"));
  EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kNone);
}

TEST_F(RedisOutage, ARuleAgainstReadingIsNamed) {
  RedisServer server;
  server.Ask({"ACL", "SETUSER", "quire", "on", ">pw", "~other:*", "+@all"});
  const auto tier = Open(server.tcp_url("quire:pw@"), WithClock());
  EXPECT_TRUE(tier->state().is_up);
  EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kIo);
  EXPECT_THAT(tier->state().reason, HasSubstr("NOPERM"));
}

// A tier over a server of a script; it is tried once at the start, and each call again.
struct Scripted {
  explicit Scripted(std::function<void(Peer&)> talk)
      : server(std::move(talk)),
        tier(Open(server.url(), {.connect_ms = 30, .now_ms = [this] { return now_ms += 1e6; }})) {}
  std::atomic<double> now_ms = 0;  // long after the last rest at every look
  ScriptedServer server;
  std::unique_ptr<Tier> tier;
};

TEST(ScriptedRedis, EveryWayOfNotBeingRedisIsANamedFaultByTheDeadline) {
  const std::vector<std::pair<std::string, std::string>> answers = {
      {"HTTP/1.1 400 Bad Request\r\n\r\n", "not the Redis protocol"},
      {"\x15\x03\x03\x00\x02\x02\x46", "not the Redis protocol"},
      {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "not the Redis protocol"},
      {"*2000000000\r\n", "elements"},
      {"$5\r\nhel", "closed"},
      {"", "closed"},
      {":17\r\n", "answered with"},
      {"+PONG\r\n", "answered with"},
      {"*1\r\n$3\r\nabc\r\n", "answered with"},
      {"$-1\r\n", "answered with"},
      {"-LOADING Redis is loading the dataset in memory\r\n", "LOADING"},
      {"-MOVED 3999 127.0.0.1:6381\r\n", "MOVED"},
      {"-NOAUTH Authentication required.\r\n", "NOAUTH"},
      {"-BUSY script\nwith\x01lines\r\n", "BUSY script?with?lines"}};
  for (const auto& [answer, reason] : answers) {
    const bool closes = reason == "closed";
    Scripted scripted([&](Peer& peer) {
      while (!peer.Read().empty() && peer.Write(answer) && !closes) {
      }
    });
    EXPECT_EQ(LoadOne(*scripted.tier, 1), RecordFault::kIo) << answer;
    EXPECT_THAT(scripted.tier->state().reason, HasSubstr(reason)) << answer;
    EXPECT_GE(FaultCount(*scripted.tier, RecordFault::kIo), 1) << answer;
    EXPECT_NE(Store(*scripted.tier, 1), StoreOutcome::kStored) << answer;
  }
}

TEST(ScriptedRedis, AByteASecondIsATimeout) {
  Scripted scripted([](Peer& peer) {
    peer.Read();
    peer.Write("$4000\r\n");
    while (peer.Write("x") && peer.Wait(1000)) {
    }
  });
  EXPECT_EQ(LoadOne(*scripted.tier, 1, 100), RecordFault::kTimeout);
  EXPECT_THAT(scripted.tier->state().reason, HasSubstr("not whole in time"));
}

TEST(ScriptedRedis, SilenceIsATimeout) {
  Scripted scripted([](Peer& peer) {
    while (!peer.Read().empty()) {
    }
  });
  EXPECT_THAT(scripted.tier->state().reason, HasSubstr("no answer in time"));
  EXPECT_EQ(LoadOne(*scripted.tier, 1, 50), RecordFault::kTimeout);
  std::vector<bool> found;
  const BlockKey key = BlockOf(1).key();
  const Status status = scripted.tier->Find(std::span(&key, 1), In(50), found);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("timeout"));
  EXPECT_FALSE(found[0]);
  EXPECT_EQ(scripted.tier->Measure(In(50)), std::nullopt);
}

TEST(ScriptedRedis, AnEndlessValueEndsAtTheLongestRecord) {
  Scripted scripted([](Peer& peer) {
    peer.Read();
    peer.Write("$536870912\r\n");
    const std::string bytes(size_t{1} << 16, 'x');
    while (peer.Write(bytes)) {
    }
  });
  EXPECT_EQ(LoadOne(*scripted.tier, 1), RecordFault::kIo);
  EXPECT_THAT(scripted.tier->state().reason, HasSubstr("a reply of more than"));
}

// Half of the blocks in time are half of the blocks, and no reason to leave the server alone.
TEST(ScriptedRedis, WhatCameBeforeTheDeadlineIsKept) {
  const auto codec = SealingCodec();
  Bytes record;
  codec->Encode(BlockOf(1), PayloadOf(1), Packing::kZstd, record);
  const std::string value(reinterpret_cast<const char*>(record.data()), record.size());
  Scripted scripted([&](Peer& peer) {
    const std::string asked = peer.Read();
    if (asked.find("PING") != std::string::npos) {
      peer.Write("+PONG\r\n");
      peer.Read();
    }
    peer.Write("$" + std::to_string(value.size()) + "\r\n" + value + "\r\n");
    while (!peer.Read().empty()) {
    }
  });
  EXPECT_THAT(
      Load(*scripted.tier, {1, 2, 3}, 200),
      ::testing::ElementsAre(RecordFault::kNone, RecordFault::kTimeout, RecordFault::kTimeout));
  EXPECT_EQ(scripted.tier->state().reason, "");
}

TEST(ScriptedRedis, ACancelledLoadEndsAndItsConnectionIsNotUsedAgain) {
  std::atomic<int> num_pings = 0;
  Scripted scripted([&](Peer& peer) {
    for (std::string asked = peer.Read(); !asked.empty(); asked = peer.Read()) {
      if (asked.find("PING") == std::string::npos) continue;
      ++num_pings;
      peer.Write("+PONG\r\n");
    }
  });
  ASSERT_EQ(num_pings, 1);
  Bytes payload(2048);
  const BlockLoad load = {.block = BlockOf(1), .payload = payload};
  RecordFault fault = RecordFault::kNone;
  int num_asked = 0;
  scripted.tier->Load(
      std::span(&load, 1), In(kLongMs), [&] { return ++num_asked > 1; },
      [&](size_t, RecordFault told) { fault = told; });
  EXPECT_EQ(fault, RecordFault::kCancelled);
  EXPECT_EQ(scripted.server.num_connections(), 1);
  EXPECT_EQ(LoadOne(*scripted.tier, 1, 50), RecordFault::kTimeout);
  EXPECT_EQ(scripted.server.num_connections(), 2);
}

}  // namespace
}  // namespace quire
