// An HttpServer on a free port, with a handler for tests.
//
// "/echo" answers at once with the body; "/length" with its length; everything else waits for the
// test, which takes it with NextCall.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "server/http/http_server.h"
#include "server/support/raw_client.h"

namespace quire::testing {

// A flag that one thread raises and another waits for.
class Event {
 public:
  void Raise() {
    const std::scoped_lock lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  bool WaitFor(std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return count_ > 0; });
  }
  int count() {
    const std::scoped_lock lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

struct Call {
  HttpRequest request{};
  std::shared_ptr<HttpExchange> exchange{};
};

class HttpFixture : public ::testing::Test {
 protected:
  void StartServer(HttpOptions options = {}) {
    options.port = 0;
    auto server = HttpServer::Listen(options);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    server_->Start([this](HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
      Handle(std::move(request), std::move(exchange));
    });
  }

  int port() const { return server_->port(); }

  // The next request that waits for the test.
  Call NextCall() {
    std::unique_lock lock(mutex_);
    const bool is_there =
        arrived_.wait_for(lock, std::chrono::seconds(20), [&] { return !calls_.empty(); });
    EXPECT_TRUE(is_there) << "no request has come";
    if (!is_there) return {};
    Call call = std::move(calls_.front());
    calls_.pop_front();
    return call;
  }
  bool HasCallWithin(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return arrived_.wait_for(lock, timeout, [&] { return !calls_.empty(); });
  }

  // Waits until so many connections are open.
  bool WaitForConnections(int64_t count) {
    for (int i = 0; i < 4000; ++i) {
      if (server_->counters().connections_open == count) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  // A request on a connection of its own is answered: the server is well.
  void ExpectServes() {
    RawClient client(port());
    client.Send(MakeRequest("POST", "/echo", "", "well"));
    const auto answer = client.ReadAnswer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->body, "well");
  }

  std::unique_ptr<HttpServer> server_;

 private:
  void Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
    if (request.path == "/echo") {
      return exchange->Respond({.content_type = "text/plain", .body = std::move(request.body)});
    }
    if (request.path == "/length") {
      return exchange->Respond({.body = std::to_string(request.body.size())});
    }
    const std::scoped_lock lock(mutex_);
    calls_.push_back({std::move(request), std::move(exchange)});
    arrived_.notify_all();
  }

  std::mutex mutex_;  // of all that follows
  std::condition_variable arrived_;
  std::deque<Call> calls_;
};

}  // namespace quire::testing
