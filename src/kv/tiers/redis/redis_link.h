// The way to one Redis server: its connections, and when to leave it alone.
//
// Whoever wants something begins an Exchange: commands go out and replies come back under one
// deadline, over a connection of its own for that time. At most kMaxConnections are open; they are
// kept between exchanges and looked at before they are used again. What an exchange ends with tells
// the breaker (kv/tiers/redis/circuit_breaker.h): replies say that the server works, also where the
// time was too short for all of them; silence until the deadline, a lost connection, and anything
// that is not Redis say that it does not.
// Thread-safe; an Exchange is one thread's.
//
// Invariants:
//   1. No lock is held over I/O.
//   2. A connection is kept only when every command sent over it has had its reply.
#pragma once

#include <condition_variable>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "kv/tiers/record.h"
#include "kv/tiers/redis/circuit_breaker.h"
#include "kv/tiers/redis/host_addresses.h"
#include "kv/tiers/redis/redis_url.h"
#include "kv/tiers/redis/resp_connection.h"
#include "kv/tiers/tier.h"

namespace quire {

struct RedisLinkOptions {
  RespLimits limits{};
  double connect_ms = 250;
  int max_failures = 3;
  std::function<double()> now_ms{};  // for the breaker
  std::function<void()> on_lost{};   // the server failed: it may have lost all it held
};

class RedisLink {
 public:
  static constexpr int kMaxConnections = 4;

  class Exchange {
   public:
    Exchange(Exchange&&) = delete;
    ~Exchange();

    // kNone: commands may be sent. Otherwise why not, kDown where the server is left alone.
    RecordFault fault() const { return fault_; }
    void Send(std::initializer_list<std::string_view> words) { connection_->Send(words); }
    void Send(std::span<const std::string_view> words) { connection_->Send(words); }
    // The next reply; after any other end than kNone nothing more may be sent.
    RecordFault Receive(RespReply* reply);
    // The server answered with what makes the whole exchange useless: ends it as a failure.
    RecordFault Refuse(std::string reason);
    int num_replies() const { return num_replies_; }

   private:
    friend class RedisLink;
    Exchange(RedisLink* link, TierDeadline deadline, RespCancelled cancelled);
    RecordFault End(RespFault fault, std::string reason);

    RedisLink* link_;
    TierDeadline deadline_;
    RespCancelled cancelled_;
    std::chrono::steady_clock::time_point begun_;
    Admission admission_ = Admission::kRefused;
    std::unique_ptr<RespConnection> connection_;
    RecordFault fault_ = RecordFault::kNone;
    int num_replies_ = 0;
  };

  RedisLink(RedisUrl url, RedisLinkOptions options);

  const RedisUrl& url() const { return url_; }
  Exchange Begin(TierDeadline deadline, RespCancelled cancelled = {}) {
    return Exchange(this, deadline, std::move(cancelled));
  }
  // Leaves the server alone at once, whatever it did before.
  void Trip();

  // is_up: Begin would try. The reason stays until the server has worked again.
  TierState state() const;
  int64_t times_down() const;

 private:
  // A connection that is ready for commands; null with fault and reason.
  std::unique_ptr<RespConnection> Take(TierDeadline deadline, const RespCancelled& cancelled,
                                       RespFault* fault, std::string* reason);
  std::unique_ptr<RespConnection> Connect(TierDeadline deadline, const RespCancelled& cancelled,
                                          RespFault* fault, std::string* reason);
  void GiveBack(std::unique_ptr<RespConnection> connection);
  void Succeed();
  void Fail(Admission admission, std::string reason);
  void Abandon(Admission admission);

  const RedisUrl url_;
  const RedisLinkOptions options_;
  HostAddresses addresses_;

  mutable std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<std::unique_ptr<RespConnection>> idle_;
  int num_taken_ = 0;
  CircuitBreaker breaker_;
  std::string reason_;  // of the last failure, until a success
  int64_t times_down_ = 0;
};

// What a server says, fit for a line of a log: printable and bounded.
std::string Printable(std::string_view text);

}  // namespace quire
