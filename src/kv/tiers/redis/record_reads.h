// Looking records up on a server and loading them, each proven before anybody gets it.
//
// What lies under a record's key and is not that record is deleted, so that it can be stored anew.
// Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kv/tiers/redis/redis_space.h"

namespace quire {

class RecordReads {
 public:
  explicit RecordReads(RedisSpace* space) : space_(space) {}

  // As Tier's verbs of these names. loaded: the names of those that were.
  Status Find(std::span<const BlockKey> keys, TierDeadline deadline, std::vector<bool>& found);
  void Load(std::span<const BlockLoad> loads, TierDeadline deadline,
            const std::function<bool()>& cancelled,
            const std::function<void(size_t idx, RecordFault fault)>& done,
            std::vector<RecordName>* loaded);
  std::optional<TierSpeed> Measure(TierDeadline deadline);

 private:
  using Exchange = RedisLink::Exchange;
  RecordFault FindSome(Exchange& exchange, std::span<const BlockKey> keys, size_t first,
                       std::vector<bool>& found, std::vector<RecordName>& rubbish);
  // The next reply of a GETRANGE, proven. deletes: the key holds what does not belong there.
  RecordFault LoadNext(Exchange& exchange, const BlockLoad& load, bool* deletes);
  RecordFault Prove(Exchange& exchange, const BlockLoad& load, RespReply& reply, bool* deletes);
  void Discard(Exchange& exchange, std::span<const RecordName> names);

  RedisSpace* space_;
};

}  // namespace quire
