#include "kv/tiers/redis/redis_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RedisUrl Parsed(std::string_view text) {
  auto url = ParseRedisUrl(text);
  EXPECT_TRUE(url.ok()) << (url.ok() ? "" : url.error().message);
  return url.ok() ? *url : RedisUrl{};
}

TEST(RedisUrl, ReadsEveryPart) {
  const RedisUrl url = Parsed("redis://quire:secret@cache.example:7000/3");
  EXPECT_EQ(url.host, "cache.example");
  EXPECT_EQ(url.port, 7000);
  EXPECT_EQ(url.user, "quire");
  EXPECT_EQ(url.password, "secret");
  EXPECT_EQ(url.db, 3);
  EXPECT_FALSE(url.is_unix());
}

TEST(RedisUrl, LeavesOutWhatHasADefault) {
  for (const char* text : {"redis://localhost", "redis://localhost/", "valkey://localhost:6379"}) {
    const RedisUrl url = Parsed(text);
    EXPECT_EQ(url.host, "localhost");
    EXPECT_EQ(url.port, 6379);
    EXPECT_EQ(url.user, "");
    EXPECT_EQ(url.password, "");
    EXPECT_EQ(url.db, 0);
  }
}

TEST(RedisUrl, ReadsAPasswordWithoutAUser) {
  const RedisUrl url = Parsed("redis://:p%40ss%3a%2F%25@[::1]:6380");
  EXPECT_EQ(url.user, "");
  EXPECT_EQ(url.password, "p@ss:/%");
  EXPECT_EQ(url.host, "::1");
  EXPECT_EQ(url.port, 6380);
}

TEST(RedisUrl, ReadsAUnixSocket) {
  EXPECT_EQ(Parsed("unix:///run/redis/a%20b.sock").path, "/run/redis/a b.sock");
  const RedisUrl url = Parsed("unix://quire:pw@/run/r@1.sock?db=2");
  EXPECT_TRUE(url.is_unix());
  EXPECT_EQ(url.path, "/run/r@1.sock");
  EXPECT_EQ(url.user, "quire");
  EXPECT_EQ(url.db, 2);
}

TEST(RedisUrl, IsShownWithoutItsPassword) {
  EXPECT_EQ(Parsed("redis://quire:secret@h:7000/3").shown, "redis://quire@h:7000/3");
  EXPECT_EQ(Parsed("redis://:secret@[::1]").shown, "redis://[::1]:6379/0");
  EXPECT_EQ(Parsed("unix://:secret@/s?db=1").shown, "unix:///s?db=1");
}

TEST(RedisUrl, RefusesTlsAndSaysWhatToDo) {
  const auto url = ParseRedisUrl("rediss://u:secret@h");
  ASSERT_FALSE(url.ok());
  EXPECT_EQ(url.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(url.error().message, HasSubstr("proxy"));
}

TEST(RedisUrl, NoErrorTellsThePassword) {
  for (const char* text : {"redis//u:secret@h",
                           "redis://u:secret@",
                           "redis://u:secret@h:0",
                           "redis://u:secret@h:65536",
                           "redis://u:secret@h:port",
                           "redis://u:secret@h/-1",
                           "redis://u:secret@h/65536",
                           "redis://u:secret@h/0/1",
                           "redis://u:secret@h/0?x=1",
                           "redis://u:secret%@h",
                           "redis://u:secret%2@h",
                           "redis://u:secret%zz@h",
                           "redis://u:secret@[::1",
                           "http://secret",
                           "redis://u:secret@::1",
                           "redis://u:secret@[::1]x",
                           "redis://u:secret@a b",
                           "rediss://secret",
                           "unix://u:secret@",
                           "unix://u:secret@run/x",
                           "unix:///x?db=a&password=secret",
                           "redis:///secret",
                           "redis://user@h",
                           "unix:///secret%00x",
                           "",
                           "://"}) {
    const auto url = ParseRedisUrl(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_THAT(url.error().message, Not(HasSubstr("secret")));
  }
  EXPECT_FALSE(ParseRedisUrl("unix:///" + std::string(200, 'x')).ok());
}

}  // namespace
}  // namespace quire
