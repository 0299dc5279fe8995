#include <gmock/gmock.h>
#include <openssl/ssl.h>

#include <csignal>
#include <thread>

#include "server/support/http_fixture.h"
#include "server/support/tls_client.h"
#include "support/scratch_directory.h"

namespace quire::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpTls : public HttpFixture {
 protected:
  HttpTls() {
    // OpenSSL writes to sockets as anybody does.
    std::signal(SIGPIPE, SIG_IGN);
    WriteCertificate(certificate_, key_);
  }

  void StartTls(HttpOptions options = {}) {
    options.certificate_file = certificate_;
    options.key_file = key_;
    StartServer(options);
  }

  Error ListenError(const std::string& certificate, const std::string& key) {
    const auto server =
        HttpServer::Listen({.port = 0, .certificate_file = certificate, .key_file = key});
    EXPECT_FALSE(server.ok());
    return server.ok() ? Error{} : server.error();
  }

  ScratchDirectory directory_;
  const std::string certificate_ = directory_.path() / "certificate.pem";
  const std::string key_ = directory_.path() / "key.pem";
};

TEST_F(HttpTls, ServesAsWithoutIt) {
  StartTls();
  EXPECT_THAT(server_->url(), StartsWith("https://127.0.0.1:"));
  RawClient socket(port());
  TlsClient client(socket);
  ASSERT_TRUE(client.is_connected());
  EXPECT_EQ(client.protocol(), "http/1.1");
  for (int i = 0; i < 3; ++i) {
    client.Send(MakeRequest("POST", "/echo", "", "body"));
    EXPECT_THAT(client.ReadUntil("\r\n\r\nbody"), HasSubstr("200 OK"));
  }
  const std::string large(300'000, 'x');
  client.Send(MakeRequest("POST", "/echo", "", large + "end"));
  EXPECT_GT(client.ReadUntil("xend").size(), large.size());
}

TEST_F(HttpTls, StreamsAndSaysFarewell) {
  StartTls();
  RawClient socket(port());
  TlsClient client(socket);
  client.Send(MakeRequest("GET", "/stream", "Connection: close\r\n"));
  const Call call = NextCall();
  call.exchange->BeginStream({.body = "first"});
  client.ReadUntil("first\r\n");
  call.exchange->Write("second");
  client.ReadUntil("second\r\n");
  call.exchange->EndStream();
  EXPECT_EQ(client.ReadUntil("0\r\n\r\n"), "0\r\n\r\n");
  EXPECT_TRUE(client.ReadsFarewell());
  EXPECT_TRUE(WaitForConnections(0));
}

TEST_F(HttpTls, NoticesThatTheClientHasGone) {
  StartTls();
  for (const bool is_reset : {false, true}) {
    RawClient socket(port());
    Event gone;
    TlsClient client(socket);
    client.Send(MakeRequest("GET", "/x"));
    const Call call = NextCall();
    call.exchange->OnGone([&] { gone.Raise(); });
    EXPECT_FALSE(gone.WaitFor(milliseconds(10)));
    is_reset ? socket.Reset() : socket.Close();
    EXPECT_TRUE(gone.WaitFor());
  }
}

TEST_F(HttpTls, AClientThatSendsTooMuchStillReadsWhy) {
  StartTls({.max_body_bytes = 1000});
  RawClient socket(port());
  TlsClient client(socket);
  client.Send(MakeRequest("POST", "/echo", "Content-Length: 5000000\r\n"));
  EXPECT_TRUE(client.Send(std::string(5'000'000, 'x')));
  EXPECT_THAT(client.ReadUntil("body_too_large"), HasSubstr(" 413 "));
}

TEST_F(HttpTls, BadHandshakesHarmNobody) {
  StartTls({.header_timeout = milliseconds(100)});
  RawClient plain(port());
  plain.Send(MakeRequest("GET", "/x"));
  EXPECT_TRUE(plain.ReadToEnd());
  RawClient silent(port());
  EXPECT_TRUE(silent.IsClosedWithin(milliseconds(5'000)));
  RawClient cut(port());
  cut.Send(std::string_view("\x16\x03\x01\x02", 4));
  cut.Close();
  RawClient old_socket(port());
  const TlsClient old(old_socket, TLS1_1_VERSION);
  EXPECT_FALSE(old.is_connected());
  RawClient socket(port());
  TlsClient client(socket);
  client.Send(MakeRequest("POST", "/echo", "", "well"));
  EXPECT_THAT(client.ReadUntil("well"), HasSubstr("200 OK"));
}

TEST_F(HttpTls, DrainsAndStops) {
  StartTls();
  RawClient idle_socket(port());
  TlsClient idle(idle_socket);
  idle.Send(MakeRequest("POST", "/echo", "", "body"));
  idle.ReadUntil("body");
  RawClient socket(port());
  TlsClient client(socket);
  client.Send(MakeRequest("GET", "/x"));
  const Call call = NextCall();
  Event drained;
  server_->Drain([&] { drained.Raise(); });
  EXPECT_TRUE(idle.ReadsFarewell());
  call.exchange->Respond({.body = "done"});
  EXPECT_THAT(client.ReadUntil("done"), HasSubstr("Connection: close"));
  // Nobody waits for a client that keeps its end open.
  EXPECT_TRUE(drained.WaitFor(milliseconds(5'000)));
  server_->Stop();
}

TEST_F(HttpTls, StopsInTheMiddleOfThings) {
  StartTls();
  RawClient shaking(port());
  RawClient socket(port());
  TlsClient client(socket);
  client.Send(MakeRequest("GET", "/x"));
  const Call call = NextCall();
  call.exchange->BeginStream({.body = std::string(8 << 20, 'x')});
  server_->Stop();
  EXPECT_EQ(server_->counters().connections_open, 0);
}

TEST_F(HttpTls, FilesThatAreNotWhatTheyShouldBeAreNamed) {
  const std::string missing = directory_.path() / "missing.pem";
  EXPECT_EQ(ListenError(missing, key_).code, ErrorCode::kNotFound);
  EXPECT_THAT(ListenError(certificate_, missing).message, HasSubstr(missing));
  EXPECT_EQ(ListenError(certificate_, "").code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ListenError(key_, key_).code, ErrorCode::kCorrupt);
  EXPECT_EQ(ListenError(certificate_, certificate_).code, ErrorCode::kCorrupt);
  const std::string other = directory_.path() / "other.pem";
  const std::string other_key = directory_.path() / "other_key.pem";
  WriteCertificate(other, other_key);
  EXPECT_THAT(ListenError(certificate_, other_key).message, HasSubstr(other_key));
  WriteCertificate(other, other_key, "password");
  EXPECT_EQ(ListenError(other, other_key).code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace quire::testing
