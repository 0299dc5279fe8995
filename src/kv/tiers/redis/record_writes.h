// Storing records on a server and keeping them from expiring.
//
// A server that refuses to store (no memory, a replica, a rule against it) is asked again after a
// rest, longer each time, and can be read meanwhile. Touches wait for the next exchange.
// Thread-safe.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>

#include "kv/tiers/redis/redis_space.h"
#include "kv/tiers/redis/tenant_quota.h"

namespace quire {

class RecordWrites {
 public:
  explicit RecordWrites(RedisSpace* space) : space_(space), stores_(1) {}

  // As Tier's verbs of these names.
  StoreOutcome Store(const StoredBlock& block, std::span<const std::byte> payload,
                     TierDeadline deadline);
  void Touch(std::span<const RecordName> names);
  Status Flush(TierDeadline deadline);

  // Why the server refuses to store; empty while it does not.
  std::string refusal() const;

 private:
  using Exchange = RedisLink::Exchange;
  // record_bytes: of the record that is to be entered; 0 = none.
  TenantShelf ShelfOf(const TenantTag& tenant, size_t record_bytes) const;
  // Makes a record outlast its time again, or looks whether it is there where there is no time: one
  // reply, and one more with a quota and a tenant.
  void SendTouch(Exchange& exchange, const RecordName& name,
                 const std::optional<TenantTag>& tenant);
  RecordFault ReadTouch(Exchange& exchange, const RecordName& name,
                        const std::optional<TenantTag>& tenant, bool* is_there);
  RecordFault TouchAll(Exchange& exchange);

  // What came of a store, beside Tier's outcomes: how the exchange ended and what was refused.
  struct Stored {
    StoreOutcome outcome = StoreOutcome::kFailed;
    RecordFault fault = RecordFault::kNone;
    std::string refused{};
  };
  Stored StoreBy(Exchange& exchange, const StoredBlock& block, std::span<const std::byte> payload);
  RecordFault Put(Exchange& exchange, const RecordName& name, const TenantTag& tenant,
                  std::span<const std::byte> record, std::string* refused);
  RecordFault EvictBeyond(Exchange& exchange, const TenantShelf& shelf, int64_t num_records);
  // Tells the breaker and the counters.
  StoreOutcome Conclude(Admission admission, const Stored& stored);

  RedisSpace* space_;
  mutable std::mutex mutex_;
  CircuitBreaker stores_;
  std::string refusal_;
  std::set<RecordName> touched_;
};

}  // namespace quire
