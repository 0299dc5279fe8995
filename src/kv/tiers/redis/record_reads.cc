#include "kv/tiers/redis/record_reads.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

using std::chrono::steady_clock;

constexpr size_t kNamesAtOnce = 256;
constexpr size_t kBytesInFlight = size_t{4} << 20;
constexpr int kPings = 3;
constexpr int kMeasuredLoads = 8;
constexpr std::string_view kWrongType =
    "WRONGTYPE: the key of a record held something else; it was deleted";

// A block of random bytes, which do not pack, as its record.
struct Probe {
  StoredBlock block{};
  std::vector<std::byte> payload{};
  std::vector<std::byte> record{};
  std::string key{};
};

Probe MakeProbe(const RedisSpace& space) {
  const StoredModel& model = space.codec().model();
  const auto largest = std::max_element(model.group_bytes.begin(), model.group_bytes.end());
  Probe probe = {.block = {.group = static_cast<int>(largest - model.group_bytes.begin())}};
  probe.payload.resize(*largest);
  auto state = static_cast<uint64_t>(steady_clock::now().time_since_epoch().count()) | 1;
  for (std::byte& byte : probe.payload) {  // xorshift64
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<std::byte>(state);
  }
  probe.block.root = probe.block.parent = RootOf(model.fingerprint, "");
  probe.block.id = ChildOf(probe.block.parent, probe.block.tokens);
  space.codec().Encode(probe.block, probe.payload, Packing::kZstd, probe.record);
  probe.key = fmt::format("{}measure:{:016x}", space.prefix(), state);
  return probe;
}

}  // namespace

RecordFault RecordReads::FindSome(Exchange& exchange, std::span<const BlockKey> keys, size_t first,
                                  std::vector<bool>& found, std::vector<RecordName>& rubbish) {
  const auto shortest = static_cast<int64_t>(kRecordHeaderBytes);
  const auto longest = static_cast<int64_t>(space_->max_record_bytes());
  std::vector<RecordName> names;
  for (const BlockKey& key : keys) {
    names.push_back(space_->codec().NameOf(key));
    exchange.Send({"STRLEN", space_->ValueKey(names.back())});
  }
  for (size_t i = 0; i < names.size(); ++i) {
    RespReply reply;
    if (const auto fault = exchange.Receive(&reply); fault != RecordFault::kNone) return fault;
    RecordFault fault = RecordFault::kNone;
    if (reply.IsError("WRONGTYPE")) {
      fault = RecordFault::kIo;
      space_->Complain(kWrongType);
    } else if (reply.kind != RespReply::Kind::kInteger || reply.integer < 0) {
      return exchange.Refuse(fmt::format("STRLEN was answered with: {}", Printable(reply.text)));
    } else if (reply.integer > 0 && reply.integer < shortest) {
      fault = RecordFault::kTruncated;
    } else if (reply.integer > longest) {
      fault = RecordFault::kForeign;
    }
    space_->Count(fault);
    if (fault != RecordFault::kNone) rubbish.push_back(names[i]);
    const bool is_there = fault == RecordFault::kNone && reply.integer > 0;
    found[first + i] = is_there;
    if (is_there) {
      space_->held().Add(names[i], std::nullopt, space_->now_ms());
    } else {
      space_->held().Forget(names[i]);
    }
  }
  return RecordFault::kNone;
}

Status RecordReads::Find(std::span<const BlockKey> keys, TierDeadline deadline,
                         std::vector<bool>& found) {
  found.assign(keys.size(), false);
  if (keys.empty()) return {};
  Exchange exchange = space_->link().Begin(deadline);
  RecordFault fault = exchange.fault();
  std::vector<RecordName> rubbish;
  for (size_t first = 0; first < keys.size() && fault == RecordFault::kNone;
       first += kNamesAtOnce) {
    const size_t num_keys = std::min(kNamesAtOnce, keys.size() - first);
    fault = FindSome(exchange, keys.subspan(first, num_keys), first, found, rubbish);
  }
  if (fault != RecordFault::kNone) {
    found.assign(keys.size(), false);
    space_->Count(fault);
    const std::string reason = space_->link().state().reason;
    return MakeError(ErrorCode::kIo, "the look-up of {} blocks failed: {}{}{}", keys.size(),
                     NameOf(fault), reason.empty() ? "" : ": ", reason);
  }
  Discard(exchange, rubbish);
  space_->Tally([&](TierCounters& counters) {
    counters.names_asked += static_cast<int64_t>(keys.size());
    counters.names_found += std::count(found.begin(), found.end(), true);
  });
  return {};
}

RecordFault RecordReads::Prove(Exchange& exchange, const BlockLoad& load, RespReply& reply,
                               bool* deletes) {
  *deletes = true;
  if (reply.IsError("WRONGTYPE")) {
    space_->Complain(kWrongType);
    return RecordFault::kIo;
  }
  if (reply.kind != RespReply::Kind::kString) {
    *deletes = false;
    return exchange.Refuse(fmt::format("GETRANGE was answered with: {}", Printable(reply.text)));
  }
  RecordFault fault = RecordFault::kNone;
  if (reply.text.empty()) {
    fault = RecordFault::kAbsent;
  } else if (reply.text.size() < kRecordHeaderBytes) {
    fault = RecordFault::kTruncated;
  } else if (reply.text.size() > space_->max_record_bytes()) {
    fault = RecordFault::kForeign;
  } else {
    const auto record = std::as_writable_bytes(std::span(reply.text.data(), reply.text.size()));
    fault = space_->codec().Decode(record.first<kRecordHeaderBytes>(),
                                   record.subspan(kRecordHeaderBytes), load.block, space_->demand(),
                                   load.payload);
  }
  *deletes = fault != RecordFault::kNone && fault != RecordFault::kAbsent;
  return fault;
}

RecordFault RecordReads::LoadNext(Exchange& exchange, const BlockLoad& load, bool* deletes) {
  *deletes = false;
  RespReply reply;
  if (const auto fault = exchange.Receive(&reply); fault != RecordFault::kNone) return fault;
  return Prove(exchange, load, reply, deletes);
}

void RecordReads::Load(std::span<const BlockLoad> loads, TierDeadline deadline,
                       const std::function<bool()>& cancelled,
                       const std::function<void(size_t idx, RecordFault fault)>& done,
                       std::vector<RecordName>* loaded) {
  const auto begun = steady_clock::now();
  Exchange exchange = space_->link().Begin(deadline, cancelled);
  std::vector<RecordName> names;
  for (const BlockLoad& load : loads) names.push_back(space_->codec().NameOf(load.block.key()));
  std::vector<RecordName> rubbish;
  // One byte more than a record may have, so that one that is longer shows.
  const std::string last = std::to_string(space_->max_record_bytes());
  const size_t window = std::max<size_t>(2, kBytesInFlight / space_->max_record_bytes());
  int64_t num_bytes = 0;
  size_t num_sent = 0;
  for (size_t i = 0; i < loads.size(); ++i) {
    RecordFault fault = exchange.fault();
    bool deletes = false;
    if (fault == RecordFault::kNone) {
      for (; num_sent < std::min(loads.size(), i + window); ++num_sent) {
        exchange.Send({"GETRANGE", space_->ValueKey(names[num_sent]), "0", last});
      }
      fault = LoadNext(exchange, loads[i], &deletes);
    }
    if (fault == RecordFault::kNone) {
      loaded->push_back(names[i]);
      num_bytes += static_cast<int64_t>(loads[i].payload.size());
      space_->held().Add(names[i], space_->codec().TagOf(loads[i].block.root), space_->now_ms());
    } else {
      space_->held().Forget(names[i]);
      if (deletes) rubbish.push_back(names[i]);
    }
    space_->Count(fault);
    done(i, fault);
  }
  space_->Tally([&](TierCounters& counters) {
    counters.blocks_loaded += static_cast<int64_t>(loaded->size());
    counters.bytes_loaded += num_bytes;
    counters.load_ms += MsSince(begun);
  });
  Discard(exchange, rubbish);
}

void RecordReads::Discard(Exchange& exchange, std::span<const RecordName> names) {
  if (names.empty() || exchange.fault() != RecordFault::kNone) return;
  for (const RecordName& name : names) exchange.Send({"UNLINK", space_->ValueKey(name)});
  for (size_t i = 0; i < names.size(); ++i) {
    RespReply reply;
    if (exchange.Receive(&reply) != RecordFault::kNone) return;
  }
}

std::optional<TierSpeed> RecordReads::Measure(TierDeadline deadline) {
  Probe probe = MakeProbe(*space_);
  const std::string_view value(reinterpret_cast<const char*>(probe.record.data()),
                               probe.record.size());
  const std::string last = std::to_string(space_->max_record_bytes());
  Exchange exchange = space_->link().Begin(deadline);
  RespReply reply;
  const auto ask = [&](std::initializer_list<std::string_view> words) {
    if (exchange.fault() != RecordFault::kNone) return false;
    exchange.Send(words);
    return exchange.Receive(&reply) == RecordFault::kNone && reply.kind != RespReply::Kind::kError;
  };
  double latency_ms = 0;
  for (int i = 0; i < kPings; ++i) {
    const auto begun = steady_clock::now();
    if (!ask({"PING"})) return std::nullopt;
    latency_ms = i == 0 ? MsSince(begun) : std::min(latency_ms, MsSince(begun));
  }
  if (!ask({"SET", probe.key, value, "PX", "10000"})) return std::nullopt;
  double load_ms = 0;
  int num_loads = 0;
  for (; num_loads < kMeasuredLoads; ++num_loads) {
    const auto begun = steady_clock::now();
    bool deletes = false;
    if (!ask({"GETRANGE", probe.key, "0", last}) ||
        Prove(exchange, {.block = probe.block, .payload = probe.payload}, reply, &deletes) !=
            RecordFault::kNone) {
      break;
    }
    const double ms = MsSince(begun);
    load_ms += std::max(ms - latency_ms, ms / 100);
    // A further one may take half of the time that is left.
    if (Sooner(TierDeadline::max(), 2 * ms) > deadline) {
      ++num_loads;
      break;
    }
  }
  ask({"UNLINK", probe.key});
  if (num_loads == 0) return std::nullopt;
  return TierSpeed{.latency_ms = latency_ms,
                   .bytes_per_ms = num_loads * static_cast<double>(probe.payload.size()) / load_ms};
}

}  // namespace quire
