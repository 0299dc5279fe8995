// The remote tier: blocks in Redis or Valkey, shared by all processes of a model
// (docs/kv-redis.md).
//
// A record is one string value under quire:kv:<version>:<fingerprint, 16 digits>:<name>, packed by
// zstd, with an expiry. Values are read by ranges of bounded length, replies are parsed by hiredis
// under a bound of bytes, and every exchange is held to its deadline, however slowly bytes come.
// After kBreakerFailures exchanges in a row that failed the tier rests: for a second first, twice
// as long each time, up to a minute; then one trial decides. What comes from a server is taken only
// sealed with a key, or where trust_remote says so.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kv/tiers/record_codec.h"
#include "kv/tiers/tier.h"

namespace quire {

struct RedisTierOptions {
  std::string url{};              // redis://[user[:password]@]host[:port][/db], or unix:///path
  double ttl_s = 7 * 86'400;      // of a record since it was stored or last used; 0 = none
  uint64_t tenant_max_bytes = 0;  // of one tenant's records; 0 = no quota
  bool trust_remote = false;
  double connect_ms = 250;
  double store_ms = 2000;
  std::function<double()> now_ms{};  // for the breaker; empty = the system's
};

inline constexpr int kBreakerFailures = 3;

// kInvalidArgument for a URL that is none, and without both a key and trust_remote. A server that
// does not answer is no error: the tier is down, and tried again.
Result<std::unique_ptr<Tier>> OpenRedisTier(std::shared_ptr<const RecordCodec> codec,
                                            const RedisTierOptions& options);

}  // namespace quire
