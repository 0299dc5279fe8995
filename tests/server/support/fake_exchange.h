// An exchange without a client: keeps what a route answers, and goes away when the test says so.
//
// Any thread, as with a real one. Asserts its rules: one answer, nothing after its end.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/http/http_exchange.h"

namespace quire {

// What a client would have got; outlives its exchange.
class FakeClient {
 public:
  // Waits until the answer has ended; false where it has not by then.
  bool WaitForEnd(std::chrono::milliseconds timeout = std::chrono::seconds(20)) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return has_ended_; });
  }
  // Waits until there are so many pieces of a stream, or the answer has ended.
  bool WaitForChunks(size_t count,
                     std::chrono::milliseconds timeout = std::chrono::seconds(20)) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return chunks_.size() >= count || has_ended_; });
  }

  // Disconnects: OnGone's callback runs here, as on the network thread.
  void Go() {
    std::function<void()> callback;
    {
      const std::scoped_lock lock(mutex_);
      if (is_gone_ || has_ended_) return;
      is_gone_ = true;
      callback = std::exchange(on_gone_, nullptr);
    }
    if (callback) callback();
  }

  // What the client is slow to read, as the exchange tells it.
  void SetUnsent(size_t bytes) {
    const std::scoped_lock lock(mutex_);
    unsent_bytes_ = bytes;
  }

  bool has_begun() const { return Read(has_begun_); }
  bool has_ended() const { return Read(has_ended_); }
  bool is_stream() const { return Read(is_stream_); }
  bool was_given_up() const { return Read(was_given_up_); }  // ended without an answer
  // The answer, or the head of a stream (its body: the first piece).
  HttpResponse response() const { return Read(response_); }
  int status() const { return response().status; }
  std::vector<std::string> chunks() const { return Read(chunks_); }
  // The answer's body, whole.
  std::string body() const {
    const std::scoped_lock lock(mutex_);
    std::string whole = response_.body;
    for (const std::string& chunk : chunks_) whole += chunk;
    return whole;
  }

 private:
  friend class FakeExchange;

  template <typename T>
  T Read(const T& member) const {
    const std::scoped_lock lock(mutex_);
    return member;
  }

  mutable std::mutex mutex_;  // of all that follows
  mutable std::condition_variable changed_;
  std::function<void()> on_gone_;
  HttpResponse response_;
  std::vector<std::string> chunks_;
  bool has_begun_ = false;
  bool has_ended_ = false;
  bool is_stream_ = false;
  bool is_gone_ = false;
  bool was_given_up_ = false;
  size_t unsent_bytes_ = 0;
};

class FakeExchange : public HttpExchange {
 public:
  explicit FakeExchange(std::shared_ptr<FakeClient> client) : client_(std::move(client)) {}

  ~FakeExchange() override {
    const auto unused = Change([](FakeClient& client) {
      if (client.has_ended_) return;
      client.was_given_up_ = true;
      if (!client.has_begun_) client.response_.status = 500;
      client.has_begun_ = client.has_ended_ = true;
    });
  }

  void Respond(HttpResponse response) override {
    const auto unused = Change([&](FakeClient& client) {
      EXPECT_FALSE(client.has_begun_) << "a second answer";
      client.has_begun_ = client.has_ended_ = true;
      client.response_ = std::move(response);
    });
  }

  void BeginStream(HttpResponse head) override {
    const auto unused = Change([&](FakeClient& client) {
      EXPECT_FALSE(client.has_begun_) << "a second answer";
      client.has_begun_ = client.is_stream_ = true;
      client.response_ = std::move(head);
    });
  }

  void Write(std::string bytes) override {
    const auto unused = Change([&](FakeClient& client) {
      EXPECT_TRUE(client.is_stream_ && !client.has_ended_) << "a piece outside a stream";
      client.chunks_.push_back(std::move(bytes));
    });
  }

  void EndStream() override {
    const auto unused = Change([](FakeClient& client) {
      EXPECT_TRUE(client.is_stream_ && !client.has_ended_) << "the end of no stream";
      client.has_ended_ = true;
    });
  }

  void OnGone(std::function<void()> callback) override {
    bool is_gone = false;
    const auto replaced = Change([&](FakeClient& client) {
      if (client.has_ended_) return;
      is_gone = client.is_gone_;
      if (!is_gone) client.on_gone_.swap(callback);
    });
    if (is_gone && callback) callback();
  }

  size_t unsent_bytes() const override { return client_->Read(client_->unsent_bytes_); }

 private:
  // The client's callback, to be destroyed outside the lock where the answer has ended: it may hold
  // what ends other things.
  template <typename Function>
  std::function<void()> Change(Function&& function) {
    const std::scoped_lock lock(client_->mutex_);
    function(*client_);
    client_->changed_.notify_all();
    return client_->has_ended_ ? std::exchange(client_->on_gone_, nullptr) : nullptr;
  }

  std::shared_ptr<FakeClient> client_;
};

// An exchange, and the client at its other end.
inline std::pair<std::shared_ptr<HttpExchange>, std::shared_ptr<FakeClient>> MakeFakeExchange() {
  auto client = std::make_shared<FakeClient>();
  return {std::make_shared<FakeExchange>(client), client};
}

}  // namespace quire
