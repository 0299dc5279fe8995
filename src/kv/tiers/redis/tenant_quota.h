// How much of a server's room the records of one tenant may take.
//
// A sorted set a tenant names its records by the time they were last used. With each store those
// that have expired meanwhile leave the set, and where the rest is more than the quota holds of the
// mean record's size, the records that were used longest ago go. Records that the server itself has
// evicted are counted until they would have expired, so a tenant gets rather less than more.
// Plain functions: state is the server's. docs/kv-redis.md tells of the keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv/tiers/redis/redis_link.h"

namespace quire {

struct TenantShelf {
  std::string key{};        // of the sorted set
  int64_t ttl_ms = 0;       // of a record; 0 = none
  int64_t max_records = 0;  // at least 1
  int64_t now_ms = 0;       // Unix time
};

// Queues the commands that enter `member` and ask how many there are; ReadEntry takes their
// replies. A Store's other commands may go between them only before or after all of these.
void SendEntry(RedisLink::Exchange& exchange, const TenantShelf& shelf, std::string_view member);
// num_records: after the entry. Not kNone where the exchange is over; `refused` holds what the
// server said instead of doing it.
RecordFault ReadEntry(RedisLink::Exchange& exchange, const TenantShelf& shelf, int64_t* num_records,
                      std::string* refused);
// Takes so many of those used longest ago off the shelf, at most kMaxEvictedAtOnce: their members.
inline constexpr int64_t kMaxEvictedAtOnce = 256;
RecordFault TakeOldest(RedisLink::Exchange& exchange, const TenantShelf& shelf, int64_t num_records,
                       std::vector<std::string>* members);

}  // namespace quire
