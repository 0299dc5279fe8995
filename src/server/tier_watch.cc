#include "server/tier_watch.h"

#include <algorithm>
#include <string>

namespace quire {
namespace {

constexpr double kMib = 1 << 20;

}  // namespace

TierWatch::TierWatch(ServerLog& log, std::span<const TierStatus> tiers) : log_(log) {
  for (const TierStatus& tier : tiers) {
    std::vector<LogField> fields = {{"tier", std::string(NameOf(tier.kind))},
                                    {"place", tier.place},
                                    {"read_only", tier.is_read_only}};
    if (tier.bytes > 0) fields.emplace_back("bytes", static_cast<int64_t>(tier.bytes));
    if (tier.max_bytes > 0) fields.emplace_back("max_bytes", static_cast<int64_t>(tier.max_bytes));
    if (tier.num_records >= 0) fields.emplace_back("records", tier.num_records);
    if (tier.speed.bytes_per_ms > 0) {
      fields.emplace_back("latency_ms", tier.speed.latency_ms);
      fields.emplace_back("mib_per_second", tier.speed.bytes_per_ms * 1000 / kMib);
    }
    log_.Write(LogLevel::kInfo, "tier", fields);
    states_.push_back({});
  }
  // One that is down from the beginning is told as that, too.
  Look(tiers, Clock::now());
}

bool TierWatch::IsDue(Clock::time_point now) const {
  return !states_.empty() && now - looked_at_ >= kInterval;
}

void TierWatch::Look(std::span<const TierStatus> tiers, Clock::time_point now) {
  looked_at_ = now;
  const size_t count = std::min(tiers.size(), states_.size());
  for (size_t i = 0; i < count; ++i) {
    const TierStatus& tier = tiers[i];
    const bool is_up = Answers(tier);
    if (is_up != states_[i].is_up) TellChange(tier, states_[i].down_for_ms);
    states_[i] = tier.state;
    states_[i].is_up = is_up;
  }
}

void TierWatch::TellChange(const TierStatus& tier, double was_down_for_ms) {
  const std::string name(NameOf(tier.kind));
  if (Answers(tier)) {
    log_.Write(LogLevel::kInfo, "tier_up",
               {{"tier", name}, {"place", tier.place}, {"down_for_ms", was_down_for_ms}});
  } else {
    log_.Write(LogLevel::kWarning, "tier_down",
               {{"tier", name}, {"place", tier.place}, {"reason", tier.state.reason}});
  }
}

}  // namespace quire
