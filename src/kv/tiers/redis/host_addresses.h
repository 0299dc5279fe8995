// The addresses of a server, looked up without waiting longer than a deadline.
//
// The system's look-up of names has no deadline of its own, so a name is looked up by a thread of
// its own that may outlive the question (one at a time); numbers and sockets need none. What was
// found is kept until Forget. Thread-safe.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/tiers/redis/redis_url.h"

namespace quire {

struct HostAddress {
  sockaddr_storage storage{};
  uint32_t size = 0;
};

class HostAddresses {
 public:
  explicit HostAddresses(const RedisUrl& url);

  // In the order in which they are to be tried; at least one. kIo: none, or not in time.
  Result<std::vector<HostAddress>> Get(std::chrono::steady_clock::time_point deadline);
  // The next Get looks the name up anew: the server may have moved.
  void Forget();

 private:
  struct Lookup;
  std::vector<HostAddress> fixed_;  // empty for a name
  std::shared_ptr<Lookup> lookup_;
};

}  // namespace quire
