#include "kv/tiers/redis/record_writes.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace quire {
namespace {

using std::chrono::steady_clock;

constexpr size_t kMaxTouched = 4096;

}  // namespace

TenantShelf RecordWrites::ShelfOf(const TenantTag& tenant, size_t record_bytes) const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const TierCounters counters = space_->counters();
  const auto mean = (static_cast<uint64_t>(counters.bytes_stored) + record_bytes) /
                    (static_cast<uint64_t>(counters.blocks_stored) + 1);
  const uint64_t max_records = space_->options().tenant_max_bytes / std::max<uint64_t>(1, mean);
  return {.key = space_->TenantKey(tenant),
          .ttl_ms = space_->ttl_ms(),
          .max_records = std::max<int64_t>(1, static_cast<int64_t>(max_records)),
          .now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count()};
}

// ---- Keeping

void RecordWrites::SendTouch(Exchange& exchange, const RecordName& name,
                             const std::optional<TenantTag>& tenant) {
  exchange.Send({"STRLEN", space_->ValueKey(name)});
  if (space_->ttl_ms() > 0) {
    exchange.Send({"PEXPIRE", space_->ValueKey(name), std::to_string(space_->ttl_ms())});
  }
  if (space_->options().tenant_max_bytes > 0 && tenant) {
    const TenantShelf shelf = ShelfOf(*tenant, 0);
    exchange.Send({"ZADD", shelf.key, "XX", std::to_string(shelf.now_ms), ToHex(name.digest)});
  }
}

RecordFault RecordWrites::ReadTouch(Exchange& exchange, const RecordName& name,
                                    const std::optional<TenantTag>& tenant, bool* is_there) {
  RespReply reply;
  if (const auto fault = exchange.Receive(&reply); fault != RecordFault::kNone) return fault;
  // What is no string is written over.
  if (reply.kind != RespReply::Kind::kInteger && !reply.IsError("WRONGTYPE")) {
    return exchange.Refuse(fmt::format("a touch was answered with: {}", Printable(reply.text)));
  }
  // Whatever is too short for a record is none.
  *is_there = reply.kind == RespReply::Kind::kInteger &&
              reply.integer >= static_cast<int64_t>(kRecordHeaderBytes);
  if (space_->ttl_ms() > 0) {
    if (const auto fault = exchange.Receive(&reply); fault != RecordFault::kNone) return fault;
  }
  if (*is_there) {
    space_->held().Add(name, tenant, space_->now_ms());
  } else {
    space_->held().Forget(name);
  }
  if (space_->options().tenant_max_bytes > 0 && tenant) return exchange.Receive(&reply);
  return RecordFault::kNone;
}

RecordFault RecordWrites::TouchAll(Exchange& exchange) {
  std::set<RecordName> names;
  {
    const std::lock_guard lock(mutex_);
    names.swap(touched_);
  }
  std::vector<std::optional<TenantTag>> tenants;
  for (const RecordName& name : names) {
    tenants.push_back(space_->held().TenantOf(name));
    SendTouch(exchange, name, tenants.back());
  }
  size_t i = 0;
  for (const RecordName& name : names) {
    bool is_there = false;
    const auto fault = ReadTouch(exchange, name, tenants[i++], &is_there);
    if (fault != RecordFault::kNone) return fault;
  }
  return RecordFault::kNone;
}

void RecordWrites::Touch(std::span<const RecordName> names) {
  const std::lock_guard lock(mutex_);
  for (const RecordName& name : names) {
    if (touched_.size() >= kMaxTouched) return;
    touched_.insert(name);
  }
}

Status RecordWrites::Flush(TierDeadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (touched_.empty()) return {};
  }
  Exchange exchange = space_->link().Begin(deadline);
  RecordFault fault = exchange.fault();
  if (fault == RecordFault::kNone) fault = TouchAll(exchange);
  if (fault == RecordFault::kNone) return {};
  space_->Count(fault);
  return MakeError(ErrorCode::kIo, "records were not kept from expiring ({}): {}", NameOf(fault),
                   space_->link().state().reason);
}

// ---- Storing

RecordFault RecordWrites::EvictBeyond(Exchange& exchange, const TenantShelf& shelf,
                                      int64_t num_records) {
  if (num_records <= shelf.max_records) return RecordFault::kNone;
  std::vector<std::string> members;
  const auto fault = TakeOldest(exchange, shelf, num_records - shelf.max_records, &members);
  if (fault != RecordFault::kNone || members.empty()) return fault;
  std::vector<std::string> keys;
  keys.reserve(members.size());
  for (const std::string& member : members) keys.push_back(space_->prefix() + member);
  std::vector<std::string_view> words = {"UNLINK"};
  words.insert(words.end(), keys.begin(), keys.end());
  exchange.Send(words);
  RespReply reply;
  if (const auto end = exchange.Receive(&reply); end != RecordFault::kNone) return end;
  space_->Tally(
      [&](TierCounters& counters) { counters.evictions += std::max<int64_t>(0, reply.integer); });
  return RecordFault::kNone;
}

RecordFault RecordWrites::Put(Exchange& exchange, const RecordName& name, const TenantTag& tenant,
                              std::span<const std::byte> record, std::string* refused) {
  const std::string_view value(reinterpret_cast<const char*>(record.data()), record.size());
  const std::string key = space_->ValueKey(name);
  const bool has_quota = space_->options().tenant_max_bytes > 0;
  const TenantShelf shelf = ShelfOf(tenant, record.size());
  if (has_quota) SendEntry(exchange, shelf, ToHex(name.digest));
  if (space_->ttl_ms() > 0) {
    exchange.Send({"SET", key, value, "PX", std::to_string(space_->ttl_ms())});
  } else {
    exchange.Send({"SET", key, value});
  }
  int64_t num_records = 0;
  if (has_quota) {
    const auto fault = ReadEntry(exchange, shelf, &num_records, refused);
    if (fault != RecordFault::kNone) return fault;
  }
  RespReply reply;
  if (const auto fault = exchange.Receive(&reply); fault != RecordFault::kNone) return fault;
  if (reply.kind == RespReply::Kind::kError) {
    *refused = Printable(reply.text);
  } else if (reply.text != "OK") {
    return exchange.Refuse(fmt::format("SET was answered with: {}", Printable(reply.text)));
  }
  if (!refused->empty() || !has_quota) return RecordFault::kNone;
  return EvictBeyond(exchange, shelf, num_records);
}

RecordWrites::Stored RecordWrites::StoreBy(Exchange& exchange, const StoredBlock& block,
                                           std::span<const std::byte> payload) {
  const auto begun = steady_clock::now();
  const RecordName name = space_->codec().NameOf(block.key());
  const TenantTag tenant = space_->codec().TagOf(block.root);
  RecordFault fault = exchange.fault();
  if (fault == RecordFault::kNone) fault = TouchAll(exchange);
  bool is_there = false;
  if (fault == RecordFault::kNone) {
    SendTouch(exchange, name, tenant);
    fault = ReadTouch(exchange, name, tenant, &is_there);
  }
  if (fault != RecordFault::kNone) return {.fault = fault};
  if (is_there) return {.outcome = StoreOutcome::kHeld};

  std::vector<std::byte> record;
  space_->codec().Encode(block, payload, Packing::kZstd, record);
  const uint64_t quota = space_->options().tenant_max_bytes;
  if (quota > 0 && record.size() > quota) return {.outcome = StoreOutcome::kQuota};
  Stored stored;
  stored.fault = Put(exchange, name, tenant, record, &stored.refused);
  if (stored.fault != RecordFault::kNone || !stored.refused.empty()) return stored;
  space_->held().Add(name, tenant, space_->now_ms());
  space_->Tally([&](TierCounters& counters) {
    ++counters.blocks_stored;
    counters.bytes_stored += static_cast<int64_t>(record.size());
    counters.store_ms += MsSince(begun);
  });
  stored.outcome = StoreOutcome::kStored;
  return stored;
}

StoreOutcome RecordWrites::Conclude(Admission admission, const Stored& stored) {
  const bool is_refused = !stored.refused.empty();
  space_->Count(is_refused ? RecordFault::kIo : stored.fault);
  if (stored.outcome == StoreOutcome::kQuota) {
    space_->Tally([](TierCounters& counters) { ++counters.stores_refused; });
  }
  const double now_ms = space_->now_ms();
  const std::lock_guard lock(mutex_);
  if (is_refused) {
    stores_.Fail(admission, now_ms);
    refusal_ = fmt::format("{}: refuses to store: {}", space_->link().url().shown, stored.refused);
  } else if (stored.outcome == StoreOutcome::kStored) {
    stores_.Succeed();
    refusal_.clear();
  } else {
    stores_.Abandon(admission);
  }
  return stored.fault == RecordFault::kDown ? StoreOutcome::kDown : stored.outcome;
}

StoreOutcome RecordWrites::Store(const StoredBlock& block, std::span<const std::byte> payload,
                                 TierDeadline deadline) {
  const RecordName name = space_->codec().NameOf(block.key());
  const double now_ms = space_->now_ms();
  if (space_->held().Holds(name, now_ms)) {
    Touch(std::span(&name, 1));
    return StoreOutcome::kHeld;
  }
  Admission admission = Admission::kRefused;
  {
    const std::lock_guard lock(mutex_);
    admission = stores_.Admit(now_ms);
  }
  if (admission == Admission::kRefused) {
    space_->Count(RecordFault::kDown);
    return StoreOutcome::kDown;
  }
  Exchange exchange = space_->link().Begin(Sooner(deadline, space_->options().store_ms));
  return Conclude(admission, StoreBy(exchange, block, payload));
}

std::string RecordWrites::refusal() const {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

}  // namespace quire
