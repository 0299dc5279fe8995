#include "kv/tiers/redis/resp_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::HasSubstr;
using Kind = RespReply::Kind;
using Step = RespReader::Step;

constexpr RespLimits kSmall = {.max_reply_bytes = 100, .max_elements = 8};

// Why the reader breaks on these bytes; empty where it does not.
std::string Broken(std::string_view bytes, const RespLimits& limits = kSmall) {
  RespReader reader(limits);
  RespReply reply;
  for (const char byte : bytes) {
    reader.Feed(std::string_view(&byte, 1));
    Step step = reader.Next(&reply);
    while (step == Step::kReply) step = reader.Next(&reply);
    if (step == Step::kBroken) return reader.reason();
  }
  return {};
}

TEST(RespReader, ReadsEveryKindOfReplyHoweverItIsCut) {
  static constexpr char kBytes[] =
      "+OK\r\n-ERR no\r\n:-12\r\n$3\r\na\0b\r\n$-1\r\n*2\r\n:1\r\n*1\r\n$0\r\n\r\n";
  const std::string whole(kBytes, sizeof(kBytes) - 1);
  for (size_t piece = 1; piece <= whole.size(); ++piece) {
    RespReader reader({});
    std::vector<RespReply> replies;
    for (size_t i = 0; i < whole.size(); i += piece) {
      reader.Feed(std::string_view(whole).substr(i, piece));
      RespReply reply;
      while (reader.Next(&reply) == Step::kReply) replies.push_back(std::move(reply));
    }
    ASSERT_EQ(replies.size(), 6u) << piece;
    EXPECT_EQ(replies[0].kind, Kind::kStatus);
    EXPECT_EQ(replies[0].text, "OK");
    EXPECT_TRUE(replies[1].IsError("ERR"));
    EXPECT_EQ(replies[2].integer, -12);
    EXPECT_EQ(replies[3].text, std::string("a\0b", 3));
    EXPECT_EQ(replies[4].kind, Kind::kNil);
    ASSERT_EQ(replies[5].elements.size(), 2u);
    EXPECT_EQ(replies[5].elements[0].integer, 1);
    EXPECT_EQ(replies[5].elements[1].elements[0].kind, Kind::kString);
    EXPECT_TRUE(reader.IsEmpty());
  }
}

TEST(RespReader, KnowsThatBytesAreLeft) {
  RespReader reader({});
  RespReply reply;
  reader.Feed("+OK\r\n+");
  EXPECT_EQ(reader.Next(&reply), Step::kReply);
  EXPECT_FALSE(reader.IsEmpty());
}

TEST(RespReader, BreaksOnWhatIsNotTheProtocol) {
  EXPECT_THAT(Broken("HTTP/1.1 400 Bad Request\r\n"), HasSubstr("not the Redis protocol"));
  for (const char* bytes : {"\r\n", "$abc\r\n", "*x\r\n", ":\r\n", ":99999999999999999999\r\n",
                            "$-2\r\n", "*-2\r\n", "%1\r\n", "\x16\x03\x01"}) {
    EXPECT_NE(Broken(bytes), "") << bytes;
  }
}

TEST(RespReader, BreaksWhereAReplyIsLongerThanItMayBe) {
  EXPECT_THAT(Broken("$536870912\r\n" + std::string(200, 'x')), HasSubstr("more than 100 bytes"));
  EXPECT_THAT(Broken("+" + std::string(200, 'x')), HasSubstr("more than 100 bytes"));
  EXPECT_THAT(Broken("$9223372036854775807\r\n" + std::string(200, 'x')),
              HasSubstr("more than 100 bytes"));
  EXPECT_EQ(Broken("$80\r\n" + std::string(80, 'x') + "\r\n"), "");
}

TEST(RespReader, BreaksWhereAnArrayAnnouncesMoreThanItMay) {
  EXPECT_THAT(Broken("*2147483647\r\n"), HasSubstr("more than 8 elements"));
  EXPECT_THAT(Broken("*8\r\n*8\r\n"), HasSubstr("more than 8 elements"));
  EXPECT_NE(Broken("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
                   {.max_elements = 1000}),
            "");
  std::string many;
  for (int i = 0; i < 20; ++i) many += "*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n";
  EXPECT_EQ(Broken(many), "") << "the bound is of one reply";
}

TEST(RespReader, StaysBroken) {
  RespReader reader({});
  RespReply reply;
  reader.Feed("!");
  EXPECT_EQ(reader.Next(&reply), Step::kBroken);
  reader.Feed("+OK\r\n");
  EXPECT_EQ(reader.Next(&reply), Step::kBroken);
}

}  // namespace
}  // namespace quire
