// Where a Redis or Valkey server is, and who asks: what --kv-redis says.
//
//   redis://[user[:password]@]host[:port][/db]      valkey:// reads the same
//   unix://[user[:password]@]/path[?db=N]
//
// User, password and path may be percent-encoded. No message and no `shown` ever holds a password,
// nor the text that was not understood, for a password may be in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

struct RedisUrl {
  std::string host{};  // name or address, without brackets; empty for a unix socket
  uint16_t port = 6379;
  std::string path{};  // of a unix socket
  std::string user{};  // empty = the default user
  std::string password{};
  int db = 0;
  std::string shown{};  // the URL without its password

  bool is_unix() const { return host.empty(); }
};

inline constexpr int kMaxRedisDb = 65'535;

// kInvalidArgument for what is no such URL; kUnsupported for rediss://.
Result<RedisUrl> ParseRedisUrl(std::string_view text);

}  // namespace quire
