#include "kv/tiers/redis/tenant_quota.h"

#include <algorithm>
#include <utility>

namespace quire {

void SendEntry(RedisLink::Exchange& exchange, const TenantShelf& shelf, std::string_view member) {
  const std::string now = std::to_string(shelf.now_ms);
  exchange.Send({"ZADD", shelf.key, now, member});
  if (shelf.ttl_ms > 0) {
    const std::string oldest = std::to_string(shelf.now_ms - shelf.ttl_ms);
    exchange.Send({"ZREMRANGEBYSCORE", shelf.key, "-inf", oldest});
    exchange.Send({"PEXPIRE", shelf.key, std::to_string(shelf.ttl_ms)});
  }
  exchange.Send({"ZCARD", shelf.key});
}

RecordFault ReadEntry(RedisLink::Exchange& exchange, const TenantShelf& shelf, int64_t* num_records,
                      std::string* refused) {
  const int num_replies = shelf.ttl_ms > 0 ? 4 : 2;
  *num_records = 0;
  for (int i = 0; i < num_replies; ++i) {
    RespReply reply;
    if (const auto fault = exchange.Receive(&reply); fault != RecordFault::kNone) return fault;
    if (reply.kind == RespReply::Kind::kInteger) {
      *num_records = reply.integer;
    } else if (refused->empty()) {
      *refused = reply.kind == RespReply::Kind::kError ? Printable(reply.text)
                                                       : "an answer of another kind";
    }
  }
  return RecordFault::kNone;
}

RecordFault TakeOldest(RedisLink::Exchange& exchange, const TenantShelf& shelf, int64_t num_records,
                       std::vector<std::string>* members) {
  exchange.Send({"ZPOPMIN", shelf.key, std::to_string(std::min(num_records, kMaxEvictedAtOnce))});
  RespReply reply;
  if (const auto fault = exchange.Receive(&reply); fault != RecordFault::kNone) return fault;
  if (reply.kind != RespReply::Kind::kArray) {
    return exchange.Refuse(fmt::format("ZPOPMIN was refused: {}", Printable(reply.text)));
  }
  for (size_t i = 0; i + 1 < reply.elements.size(); i += 2) {  // member, score
    members->push_back(std::move(reply.elements[i].text));
  }
  return RecordFault::kNone;
}

}  // namespace quire
