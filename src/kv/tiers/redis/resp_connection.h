// One connection to a Redis server: commands out, replies in, every wait under a deadline.
//
// Send queues a command; each is answered by one Receive, in order, so that any number may be under
// way. A Receive ends with a whole reply or by its deadline, however slowly bytes come: the
// deadline is for all of the reply's bytes. Whatever else than a reply it ends with (a time that is
// over, a cancelled wait, a lost connection, bytes out of protocol) breaks the connection for good:
// a reply that was half read cannot be told from the next one. Used by one thread at a time;
// `cancelled` is called by it, at least every kCancelPollMs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kv/tiers/redis/resp_reader.h"

struct sockaddr;

namespace quire {

using RespDeadline = std::chrono::steady_clock::time_point;
using RespCancelled = std::function<bool()>;  // empty = never

enum class RespFault : uint8_t {
  kNone,
  kTimeout,
  kCancelled,
  kLost,      // refused, closed, or an error of the system
  kProtocol,  // something else than Redis answers, or more than it may
};

class RespConnection {
 public:
  static constexpr int kCancelPollMs = 10;

  // Connects a socket to one address. Null, with fault and reason, where that fails.
  static std::unique_ptr<RespConnection> Connect(const sockaddr* address, uint32_t address_bytes,
                                                 const RespLimits& limits, RespDeadline deadline,
                                                 const RespCancelled& cancelled, RespFault* fault,
                                                 std::string* reason);
  ~RespConnection();
  RespConnection(const RespConnection&) = delete;
  RespConnection& operator=(const RespConnection&) = delete;

  // words: the command and its arguments, any bytes.
  void Send(std::span<const std::string_view> words);
  void Send(std::initializer_list<std::string_view> words) {
    Send(std::span<const std::string_view>(words.begin(), words.size()));
  }
  // The reply to the oldest command that has none yet.
  RespFault Receive(RespDeadline deadline, const RespCancelled& cancelled, RespReply* reply);

  // Nothing is under way, and the server has neither closed it nor said what nobody asked for.
  bool IsIdle();
  bool is_broken() const { return fault_ != RespFault::kNone; }
  const std::string& reason() const { return reason_; }  // of being broken

 private:
  RespConnection(int socket, const RespLimits& limits) : socket_(socket), reader_(limits) {}
  RespFault Break(RespFault fault, std::string reason);
  RespFault WriteSome();
  RespFault ReadSome();
  RespFault Wait(RespDeadline deadline, const RespCancelled& cancelled);

  int socket_;  // -1 once broken
  RespReader reader_;
  std::string unsent_;
  size_t sent_bytes_ = 0;  // of unsent_
  size_t num_pending_ = 0;
  bool has_heard_ = false;  // any byte of a reply since the last Send into an idle connection
  RespFault fault_ = RespFault::kNone;
  std::string reason_;
};

}  // namespace quire
