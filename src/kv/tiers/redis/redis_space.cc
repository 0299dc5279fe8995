#include "kv/tiers/redis/redis_space.h"

#include <utility>

namespace quire {
namespace {

constexpr size_t kMaxHeldNames = size_t{1} << 16;
// A server evicts without telling: what was seen is believed for no longer, and asked for again.
constexpr double kMaxHeldMs = 600'000;
constexpr double kComplaintMs = 60'000;
// Beside the longest value: its frame, and what one read brings of the next replies.
constexpr size_t kReplySlackBytes = size_t{128} << 10;

RedisTierOptions WithClock(RedisTierOptions options) {
  if (!options.now_ms) {
    options.now_ms = [] { return MsSince({}); };
  }
  return options;
}

}  // namespace

RedisSpace::RedisSpace(std::shared_ptr<const RecordCodec> codec, RedisUrl url,
                       const RedisTierOptions& options)
    : codec_(std::move(codec)),
      options_(WithClock(options)),
      prefix_(fmt::format("quire:kv:{}:{}:", kRecordVersion,
                          ToHex(codec_->model().fingerprint).substr(0, 16))),
      max_record_bytes_(codec_->MaxRecordBytes()),
      held_(kMaxHeldNames,
            options.ttl_s > 0 ? std::min(kMaxHeldMs, options.ttl_s * 1000 / 2) : kMaxHeldMs),
      link_(std::move(url), {.limits = {.max_reply_bytes = max_record_bytes_ + kReplySlackBytes},
                             .connect_ms = options_.connect_ms,
                             .max_failures = kBreakerFailures,
                             .now_ms = options_.now_ms,
                             .on_lost = [this] { held_.Clear(); }}) {}

std::string RedisSpace::TenantKey(const TenantTag& tenant) const {
  Digest digest{};
  std::copy(tenant.begin(), tenant.end(), digest.begin());
  return fmt::format("quire:kv:{}:tenant:{}", kRecordVersion,
                     ToHex(digest).substr(0, 2 * tenant.size()));
}

void RedisSpace::Count(RecordFault fault) {
  // What is not there, and what nobody wants any more, is no fault.
  if (fault == RecordFault::kNone || fault == RecordFault::kAbsent ||
      fault == RecordFault::kCancelled) {
    return;
  }
  const std::lock_guard lock(mutex_);
  ++counters_.faults[static_cast<size_t>(fault)];
}

TierCounters RedisSpace::counters() const {
  const int64_t times_down = link_.times_down();
  const std::lock_guard lock(mutex_);
  TierCounters counters = counters_;
  counters.times_down = times_down;
  return counters;
}

void RedisSpace::Complain(std::string_view reason) {
  const double now = now_ms();
  const std::lock_guard lock(mutex_);
  complaint_ = fmt::format("{}: {}", link_.url().shown, reason);
  complaint_at_ms_ = now;
}

TierState RedisSpace::state() const {
  TierState state = link_.state();
  const double now = now_ms();
  const std::lock_guard lock(mutex_);
  if (state.reason.empty() && !complaint_.empty() && now - complaint_at_ms_ < kComplaintMs) {
    state.reason = complaint_;
  }
  return state;
}

}  // namespace quire
