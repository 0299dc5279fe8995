#include "server/http/request_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace quire {
namespace {

constexpr RequestLimits kLimits{.max_header_bytes = 1024, .max_body_bytes = 100};

struct Outcome {
  int status = 0;  // 200 = a request, 0 = more bytes are needed
  HttpRequest request{};
  std::string message{};
  size_t used = 0;
};

// Feeds the bytes so many at a time.
Outcome Read(std::string_view bytes, size_t at_a_time = 1 << 20) {
  RequestReader reader(kLimits);
  Outcome outcome;
  for (size_t end = std::min(at_a_time, bytes.size());;) {
    size_t used = 0;
    const ReadProgress progress =
        reader.Feed(bytes.substr(outcome.used, end - outcome.used), &used);
    outcome.used += used;
    if (progress == ReadProgress::kRefused) {
      outcome.status = reader.error().status;
      outcome.message = reader.error().message;
      return outcome;
    }
    if (progress == ReadProgress::kDone) {
      outcome.status = 200;
      outcome.request = std::move(reader.request());
      return outcome;
    }
    if (progress == ReadProgress::kHead) continue;
    if (end == bytes.size()) return outcome;
    end = std::min(end + at_a_time, bytes.size());
  }
}

const std::string kGet = "GET /v1/models?a=%20b HTTP/1.1\r\nHost: x\r\nA: 1\r\n\r\n";
const std::string kPost = "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
const std::string kChunked =
    "POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    "3;ext=\"a\"\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n";

std::string WithHeaders(const std::string& headers, const std::string& rest = "") {
  return "POST /p HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + rest;
}

TEST(RequestReader, SplitsTheTargetAndLeavesPercentsAlone) {
  const Outcome outcome = Read(kGet);
  EXPECT_EQ(outcome.status, 200);
  EXPECT_EQ(outcome.request.method, "GET");
  EXPECT_EQ(outcome.request.path, "/v1/models");
  EXPECT_EQ(outcome.request.query, "a=%20b");
  EXPECT_EQ(*FindHeader(outcome.request.headers, "a"), "1");
  EXPECT_EQ(FindHeader(outcome.request.headers, "b"), nullptr);
}

TEST(RequestReader, ReadsTheSameInPiecesOfAnySize) {
  for (const std::string& text : {kGet, kPost, kChunked}) {
    const Outcome whole = Read(text);
    for (const size_t at_a_time : {1, 2, 3, 7, 20}) {
      const Outcome pieces = Read(text, at_a_time);
      EXPECT_EQ(pieces.status, 200) << text << " in pieces of " << at_a_time;
      EXPECT_EQ(pieces.request.body, whole.request.body);
      EXPECT_EQ(pieces.request.headers, whole.request.headers);
      EXPECT_EQ(pieces.used, text.size());
    }
  }
}

TEST(RequestReader, LeavesTheNextRequestWhereItIs) {
  for (const std::string& text : {kGet, kPost, kChunked}) {
    EXPECT_EQ(Read(text + kGet).used, text.size()) << text;
  }
}

TEST(RequestReader, PutsChunksTogetherAndDropsTrailers) {
  const Outcome outcome = Read(kChunked);
  EXPECT_EQ(outcome.request.body, "hello");
  EXPECT_EQ(FindHeader(outcome.request.headers, "Trailer"), nullptr);
}

TEST(RequestReader, TakesAbsoluteTargetsAndAsterisk) {
  const auto path = [](const std::string& target) {
    return Read("OPTIONS " + target + " HTTP/1.1\r\nHost: x\r\n\r\n").request.path;
  };
  EXPECT_EQ(path("http://example.com:80/v1/models?x"), "/v1/models");
  EXPECT_EQ(path("HTTPS://example.com"), "/");
  EXPECT_EQ(path("http://example.com?x=/y"), "/");
  EXPECT_EQ(path("*"), "*");
}

TEST(RequestReader, SkipsAFewEmptyLinesBeforeARequest) {
  EXPECT_EQ(Read("\r\n\r\n" + kGet).status, 200);
  EXPECT_EQ(Read("\r\n\r\n" + kGet, 1).status, 200);
  EXPECT_EQ(Read("\r\n\r\n\r\n\r\n\r\n\r\n" + kGet).status, 400);
}

TEST(RequestReader, RefusesTwoWaysToTellTheBodysEnd) {
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  EXPECT_EQ(Read(WithHeaders("Content-Length: 5\r\n" + chunked)).status, 400);
  EXPECT_EQ(Read(WithHeaders(chunked + "Content-Length: 5\r\n")).status, 400);
  EXPECT_EQ(Read(WithHeaders(chunked + chunked)).status, 400);
  EXPECT_EQ(Read(WithHeaders("Content-Length: 5\r\nContent-Length: 6\r\n")).status, 400);
  EXPECT_EQ(Read(WithHeaders("Content-Length: 5, 6\r\n")).status, 400);
  EXPECT_EQ(Read("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").status, 400);
}

TEST(RequestReader, RefusesCodingsThatItDoesNotUndo) {
  for (const char* coding :
       {"gzip", "gzip, chunked", "chunked, gzip", "xchunked", "identity", ""}) {
    EXPECT_EQ(Read(WithHeaders(fmt::format("Transfer-Encoding: {}\r\n", coding))).status, 501)
        << coding;
  }
}

TEST(RequestReader, RefusesLengthsThatAreNone) {
  for (const char* length :
       {"-1", "+1", "1x", "0x10", "", "1 2", "99999999999999999999999", "18446744073709551616"}) {
    EXPECT_EQ(Read(WithHeaders(fmt::format("Content-Length: {}\r\n", length))).status, 400)
        << length;
  }
  EXPECT_EQ(Read(WithHeaders("Content-Length: 18446744073709551615\r\n")).status, 413);
}

TEST(RequestReader, RefusesABodyOverTheLimitAsSoonAsItIsKnown) {
  EXPECT_EQ(Read(WithHeaders("Content-Length: 100\r\n", std::string(100, 'x'))).status, 200);
  EXPECT_EQ(Read(WithHeaders("Content-Length: 101\r\n")).status, 413);
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  const std::string half = "32\r\n" + std::string(50, 'x') + "\r\n";
  EXPECT_EQ(Read(WithHeaders(chunked, half + half + "0\r\n\r\n")).request.body.size(), 100u);
  EXPECT_EQ(Read(WithHeaders(chunked, half + half + "1\r\n")).status, 413);
  EXPECT_EQ(Read(WithHeaders(chunked, "ffffffffffffffff\r\n")).status, 413);
}

TEST(RequestReader, RefusesBrokenChunks) {
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  for (const char* body : {"x\r\n", "-1\r\n", "5\nhello\r\n", "3\r\nhello\r\n0\r\n\r\n",
                           "fffffffffffffffff\r\n", " 3\r\nabc\r\n0\r\n\r\n", "\r\n"}) {
    EXPECT_EQ(Read(WithHeaders(chunked, body)).status, 400) << body;
  }
  EXPECT_EQ(Read(WithHeaders(chunked, "1;" + std::string(5000, 'a'))).status, 400);
  EXPECT_EQ(Read(WithHeaders(chunked, "0\r\nT: " + std::string(5000, 'a'))).status, 400);
}

TEST(RequestReader, TellsWhatIsTooLong) {
  EXPECT_EQ(Read("GET /" + std::string(2000, 'a')).status, 414);
  EXPECT_EQ(Read("GET /" + std::string(2000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n").status, 414);
  EXPECT_EQ(Read(WithHeaders("A: " + std::string(2000, 'a') + "\r\n")).status, 431);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "A: b\r\n";
  EXPECT_EQ(Read(WithHeaders(many)).status, 431);
  EXPECT_EQ(Read(WithHeaders(many), 100).status, 431);
}

TEST(RequestReader, RefusesWhatIsNoRequest) {
  using namespace std::string_literals;
  for (const std::string& text :
       {"\x16\x03\x01\x02\x00\x01\x00"s,  // TLS
        "garbage\r\n\r\n"s, "GET\r\n\r\n"s, "GET  / HTTP/1.1\r\n\r\n"s,
        "GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n"s, "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"s,
        "GET / HTTP/1.1\r\nHost: x\r\nA\0: b\r\n\r\n"s,
        "GET / HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n"s,
        "GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n"s,
        "GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n"s,
        "GET / HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n"s,
        "GET / HTTP/1.1\r\nHost: x\rA: b\r\n\r\n"s, "GET / HTTP/1.1\r\n\r\n"s,
        "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"s}) {
    const Outcome outcome = Read(text);
    EXPECT_TRUE(outcome.status == 400 || outcome.status == 505)
        << outcome.status << " for " << ::testing::PrintToString(text);
    EXPECT_NE(outcome.message, "");
  }
}

TEST(RequestReader, RefusesOtherVersions) {
  EXPECT_EQ(Read("GET / HTTP/2.0\r\nHost: x\r\n\r\n").status, 505);
  EXPECT_EQ(Read("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").status, 505);
  EXPECT_EQ(Read("GET / HTTP/0.9\r\nHost: x\r\n\r\n").status, 505);
}

TEST(RequestReader, KnowsOneExpectation) {
  RequestReader reader(kLimits);
  size_t used = 0;
  const std::string head = WithHeaders("Expect: 100-Continue\r\nContent-Length: 5\r\n");
  EXPECT_EQ(reader.Feed(head, &used), ReadProgress::kHead);
  EXPECT_TRUE(reader.expects_continue());
  EXPECT_EQ(Read(WithHeaders("Expect: tea\r\nContent-Length: 5\r\n")).status, 417);
}

TEST(RequestReader, SurvivesRandomChangesOfRequests) {
  std::mt19937 random(7);
  const std::vector<std::string> seeds = {kGet, kPost, kChunked};
  int num_taken = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = seeds[random() % seeds.size()];
    for (int change = static_cast<int>(random() % 4); change >= 0; --change) {
      const size_t place = random() % text.size();
      if (random() % 2 == 0) {
        text[place] = static_cast<char>(random());
      } else {
        text.insert(place, text.substr(random() % text.size(), random() % 9));
      }
    }
    const Outcome outcome = Read(text, 1 + random() % 50);
    num_taken += outcome.status == 200 ? 1 : 0;
    EXPECT_LE(outcome.request.body.size(), kLimits.max_body_bytes);
  }
  EXPECT_GT(num_taken, 100);
}

}  // namespace
}  // namespace quire
