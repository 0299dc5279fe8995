// Where requests and answers begin and end, and what is refused.
#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "server/support/http_fixture.h"

namespace quire::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using HttpFraming = HttpFixture;

// A refusal: the status, OpenAI's form, and a connection that is told to be over.
void ExpectRefused(RawClient& client, int status) {
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer) << "instead of " << status;
  EXPECT_EQ(answer->status, status) << answer->body;
  EXPECT_THAT(answer->body, StartsWith(R"({"error":{"message":")"));
  EXPECT_EQ(answer->header("Connection"), "close");
  EXPECT_TRUE(client.IsClosedWithin(milliseconds(10'000)));
}

TEST_F(HttpFraming, AnswersRequestAfterRequestOnOneConnection) {
  StartServer();
  RawClient client(port());
  for (const std::string body : {"one", "two", "three"}) {
    client.Send(MakeRequest("POST", "/echo", "", body));
    const auto answer = client.ReadAnswer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->body, body);
    EXPECT_EQ(answer->header("Content-Type"), "text/plain");
    EXPECT_EQ(answer->header("Server"), "quire");
    EXPECT_THAT(answer->header("Date"), HasSubstr(" GMT"));
    EXPECT_EQ(answer->header("Connection"), "");
  }
  EXPECT_EQ(server_->counters().requests, 3);
  EXPECT_EQ(server_->counters().connections_accepted, 1);
}

TEST_F(HttpFraming, TellsTheHandlerWhatWasAsked) {
  StartServer();
  RawClient client(port());
  client.Send(MakeRequest("PUT", "/a/b%2f?x=1&y", "X-Name: value\r\n", "body"));
  const Call call = NextCall();
  EXPECT_EQ(call.request.method, "PUT");
  EXPECT_EQ(call.request.path, "/a/b%2f");
  EXPECT_EQ(call.request.query, "x=1&y");
  EXPECT_EQ(call.request.body, "body");
  ASSERT_NE(FindHeader(call.request.headers, "x-name"), nullptr);
  EXPECT_THAT(call.request.remote, StartsWith("127.0.0.1:"));
}

TEST_F(HttpFraming, AnswersPipelinedRequestsInOrder) {
  StartServer();
  RawClient client(port());
  std::string requests;
  for (int i = 0; i < 200; ++i) requests += MakeRequest("POST", "/echo", "", std::to_string(i));
  requests.insert(0, MakeRequest("GET", "/wait"));
  client.Send(requests);
  NextCall().exchange->Respond({.body = "first"});
  EXPECT_EQ(client.ReadAnswer()->body, "first");
  for (int i = 0; i < 200; ++i) {
    const auto answer = client.ReadAnswer();
    ASSERT_TRUE(answer) << i;
    EXPECT_EQ(answer->body, std::to_string(i));
  }
}

TEST_F(HttpFraming, ReadsTheNextRequestOnlyWhenTheFirstHasItsAnswer) {
  StartServer();
  RawClient client(port());
  client.Send(MakeRequest("GET", "/a") + MakeRequest("GET", "/b"));
  const Call first = NextCall();
  EXPECT_FALSE(HasCallWithin(milliseconds(50)));
  first.exchange->Respond({});
  EXPECT_EQ(NextCall().request.path, "/b");
}

TEST_F(HttpFraming, TakesLargeAndChunkedBodies) {
  StartServer({.max_body_bytes = 4 << 20});
  RawClient client(port());
  const std::string large(3 << 20, 'x');
  client.Send(MakeRequest("POST", "/length", "", large));
  EXPECT_EQ(client.ReadAnswer()->body, std::to_string(large.size()));
  client.Send(MakeRequest("POST", "/echo", "Transfer-Encoding: chunked\r\n"));
  for (const char* piece : {"3\r\nabc\r\n", "2;x=y\r\nde\r\n", "0\r\nTrailer: z\r\n\r\n"}) {
    client.Send(piece);
    std::this_thread::sleep_for(milliseconds(2));
  }
  EXPECT_EQ(client.ReadAnswer()->body, "abcde");
  client.Send(MakeRequest("POST", "/echo", "", "still here"));
  EXPECT_EQ(client.ReadAnswer()->body, "still here");
}

TEST_F(HttpFraming, AnswersLargeBodiesWhole) {
  StartServer({.max_body_bytes = 16 << 20, .max_unsent_bytes = 1 << 10});
  RawClient client(port());
  std::string large(9 << 20, 'x');
  for (size_t i = 0; i < large.size(); i += 1000) large[i] = static_cast<char>('a' + i / 1000 % 26);
  client.Send(MakeRequest("POST", "/echo", "", large));
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->body == large);
}

TEST_F(HttpFraming, HeadHasTheHeadersOfGetAndNoBody) {
  StartServer();
  RawClient client(port());
  client.Send(MakeRequest("HEAD", "/x") + MakeRequest("POST", "/echo", "", "next"));
  NextCall().exchange->Respond({.body = "12345"});
  EXPECT_EQ(client.ReadAnswer(/*is_head=*/true)->header("Content-Length"), "5");
  EXPECT_EQ(client.ReadAnswer()->body, "next");
  client.Send(MakeRequest("HEAD", "/x") + MakeRequest("POST", "/echo", "", "next"));
  const Call stream = NextCall();
  stream.exchange->BeginStream({.body = "a"});
  stream.exchange->Write("b");
  stream.exchange->EndStream();
  EXPECT_EQ(client.ReadAnswer(/*is_head=*/true)->status, 200);
  EXPECT_EQ(client.ReadAnswer()->body, "next");
}

TEST_F(HttpFraming, NoContentHasNeitherBodyNorLength) {
  StartServer();
  RawClient client(port());
  client.Send(MakeRequest("OPTIONS", "/x") + MakeRequest("POST", "/echo", "", "next"));
  NextCall().exchange->Respond({.status = 204, .headers = {{"Allow", "GET"}}});
  const auto answer = client.ReadAnswer();
  EXPECT_EQ(answer->header("Content-Length"), "");
  EXPECT_EQ(answer->header("Allow"), "GET");
  EXPECT_EQ(client.ReadAnswer()->body, "next");
}

TEST_F(HttpFraming, AHeadersValueCannotBeginAnotherHeader) {
  StartServer();
  RawClient client(port());
  client.Send(MakeRequest("GET", "/x"));
  NextCall().exchange->Respond({.headers = {{"X-Request-Id", "a\r\nSet-Cookie: b"}}});
  const auto answer = client.ReadAnswer();
  EXPECT_EQ(answer->header("X-Request-Id"), "a  Set-Cookie: b");
  EXPECT_EQ(answer->header("Set-Cookie"), "");
}

TEST_F(HttpFraming, Http10ClosesUnlessAskedNotTo) {
  StartServer();
  RawClient closing(port());
  closing.Send("POST /echo HTTP/1.0\r\nContent-Length: 2\r\n\r\nab");
  const auto answer = closing.ReadAnswer();
  EXPECT_EQ(answer->body, "ab");
  EXPECT_EQ(answer->header("Connection"), "close");
  EXPECT_TRUE(closing.IsClosedWithin(milliseconds(5'000)));
  RawClient keeping(port());
  for (int i = 0; i < 2; ++i) {
    keeping.Send("POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nab");
    EXPECT_EQ(keeping.ReadAnswer()->header("Connection"), "keep-alive");
  }
}

TEST_F(HttpFraming, ConnectionCloseIsHeeded) {
  StartServer();
  RawClient client(port());
  client.Send(MakeRequest("POST", "/echo", "Connection: close\r\n", "ab"));
  EXPECT_EQ(client.ReadAnswer()->header("Connection"), "close");
  EXPECT_TRUE(client.IsClosedWithin(milliseconds(5'000)));
}

TEST_F(HttpFraming, SaysContinueOnlyWhereTheBodyMayCome) {
  StartServer({.max_body_bytes = 100});
  RawClient client(port());
  client.Send(MakeRequest("POST", "/echo", "Expect: 100-continue\r\nContent-Length: 2\r\n"));
  EXPECT_EQ(client.ReadAnswer()->status, 100);
  client.Send("ab");
  EXPECT_EQ(client.ReadAnswer()->body, "ab");
  client.Send(MakeRequest("POST", "/echo", "Expect: 100-continue\r\n", "at once"));
  EXPECT_EQ(client.ReadAnswer()->body, "at once");
  client.Send(MakeRequest("POST", "/echo", "Expect: 100-continue\r\nContent-Length: 101\r\n"));
  ExpectRefused(client, 413);
  RawClient other(port());
  other.Send(MakeRequest("POST", "/echo", "Expect: wonders\r\nContent-Length: 2\r\n"));
  ExpectRefused(other, 417);
}

TEST_F(HttpFraming, AClientThatSendsTooMuchStillReadsWhy) {
  StartServer({.max_body_bytes = 1000});
  for (const char* framing : {"Content-Length: 20000000\r\n", "Transfer-Encoding: chunked\r\n"}) {
    RawClient client(port());
    client.Send(MakeRequest("POST", "/echo", framing));
    std::string body = std::string("1312d00\r\n") + std::string(20'000'000, 'x');
    EXPECT_EQ(client.SendSome(body, milliseconds(10'000)), body.size());
    const auto answer = client.ReadAnswer();
    ASSERT_TRUE(answer) << framing;
    EXPECT_EQ(answer->status, 413);
    EXPECT_THAT(answer->body, HasSubstr("1000 bytes"));
  }
  ExpectServes();
}

TEST_F(HttpFraming, RefusesWhatIsNoRequestAndGoesOnServing) {
  StartServer({.max_header_bytes = 2000});
  const auto expect = [&](const std::string& bytes, int status) {
    SCOPED_TRACE(bytes.substr(0, 60));
    RawClient client(port());
    client.Send(bytes);
    ExpectRefused(client, status);
  };
  expect("\x16\x03\x01\x02\x01\x01\xfc\x03", 400);
  expect("GET / HTTP/3.0\r\n\r\n", 505);
  expect("GET / HTTP/1.1\r\n\r\n", 400);
  expect(std::string("GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n", 29), 400);
  expect("GET /" + std::string(10'000, 'a'), 414);
  expect("GET / HTTP/1.1\r\nA: " + std::string(10'000, 'a'), 431);
  expect(MakeRequest("POST", "/echo", "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"), 400);
  expect(MakeRequest("POST", "/echo", "Transfer-Encoding: gzip\r\n"), 501);
  expect(MakeRequest("POST", "/echo", "Transfer-Encoding: chunked\r\n") + "zz\r\n", 400);
  ExpectServes();
}

TEST_F(HttpFraming, ABodyThatEndsEarlyIsSaidToHave) {
  StartServer();
  RawClient client(port());
  client.Send(MakeRequest("POST", "/echo", "Content-Length: 10\r\n") + "abc");
  client.CloseSendingHalf();
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 400);
  EXPECT_THAT(answer->body, HasSubstr("after 3 bytes"));
}

TEST_F(HttpFraming, RandomBytesHarmNobody) {
  StartServer({.max_body_bytes = 500, .max_header_bytes = 500});
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    RawClient client(port());
    std::string bytes = round % 2 == 0 ? "" : MakeRequest("POST", "/echo", "", "abcdef");
    const size_t size = random() % 1500;
    for (size_t i = 0; i < size; ++i) {
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(random() % (bytes.size() + 1)),
                   static_cast<char>(random()));
    }
    client.Send(bytes);
    if (round % 3 == 0) client.Reset();
  }
  ExpectServes();
}

using HttpTimeouts = HttpFixture;

TEST_F(HttpTimeouts, SlowHeadersAndBodiesAreTold) {
  StartServer({.header_timeout = milliseconds(80), .body_timeout = milliseconds(80)});
  RawClient head(port());
  for (int i = 0; i < 4; ++i) {
    head.Send("A");  // each byte is in time, the head is not
    std::this_thread::sleep_for(milliseconds(15));
  }
  ExpectRefused(head, 408);
  RawClient body(port());
  body.Send(MakeRequest("POST", "/echo", "Content-Length: 10\r\n") + "abc");
  ExpectRefused(body, 408);
}

TEST_F(HttpTimeouts, ConnectionsWithoutARequestAreClosed) {
  StartServer({.header_timeout = milliseconds(60), .idle_timeout = milliseconds(60)});
  RawClient silent(port());
  EXPECT_TRUE(silent.IsClosedWithin(milliseconds(5'000)));
  RawClient idle(port());
  idle.Send(MakeRequest("POST", "/echo", "", "x"));
  EXPECT_EQ(idle.ReadAnswer()->body, "x");
  EXPECT_TRUE(idle.IsClosedWithin(milliseconds(5'000)));
}

TEST_F(HttpTimeouts, AnAnswerMayTakeItsTime) {
  StartServer({.header_timeout = milliseconds(40),
               .body_timeout = milliseconds(40),
               .idle_timeout = milliseconds(40),
               .write_timeout = milliseconds(40)});
  RawClient client(port());
  client.Send(MakeRequest("GET", "/wait"));
  const Call call = NextCall();
  EXPECT_TRUE(client.IsSilentFor(milliseconds(200)));
  call.exchange->Respond({.body = "late"});
  EXPECT_EQ(client.ReadAnswer()->body, "late");
}

}  // namespace
}  // namespace quire::testing
