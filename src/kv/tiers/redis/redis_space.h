// The keys of one model on a server, the way there, and what is known and counted of both.
//
// Thread-safe; shared by what reads records (record_reads.h) and what writes them
// (record_writes.h).
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "kv/tiers/record_codec.h"
#include "kv/tiers/redis/held_names.h"
#include "kv/tiers/redis/redis_link.h"
#include "kv/tiers/redis/redis_tier.h"

namespace quire {

class RedisSpace {
 public:
  RedisSpace(std::shared_ptr<const RecordCodec> codec, RedisUrl url,
             const RedisTierOptions& options);

  const RecordCodec& codec() const { return *codec_; }
  const RedisTierOptions& options() const { return options_; }
  double now_ms() const { return options_.now_ms(); }
  int64_t ttl_ms() const { return static_cast<int64_t>(options_.ttl_s * 1000); }
  SealDemand demand() const {
    return options_.trust_remote ? SealDemand::kNone : SealDemand::kDemanded;
  }
  size_t max_record_bytes() const { return max_record_bytes_; }
  const std::string& prefix() const { return prefix_; }  // of all values' keys
  std::string ValueKey(const RecordName& name) const { return prefix_ + ToHex(name.digest); }
  std::string TenantKey(const TenantTag& tenant) const;

  HeldNames& held() { return held_; }
  const HeldNames& held() const { return held_; }
  RedisLink& link() { return link_; }
  const RedisLink& link() const { return link_; }

  void Count(RecordFault fault);
  // change(TierCounters&)
  template <typename Change>
  void Tally(Change change) {
    const std::lock_guard lock(mutex_);
    change(counters_);
  }
  TierCounters counters() const;

  // About a lone value: told in state() for a while.
  void Complain(std::string_view reason);
  TierState state() const;

 private:
  const std::shared_ptr<const RecordCodec> codec_;
  const RedisTierOptions options_;
  const std::string prefix_;
  const size_t max_record_bytes_;
  HeldNames held_;
  RedisLink link_;

  mutable std::mutex mutex_;
  TierCounters counters_;
  std::string complaint_;
  double complaint_at_ms_ = 0;
};

inline double MsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

inline TierDeadline Sooner(TierDeadline deadline, double ms) {
  return std::min(deadline, std::chrono::steady_clock::now() +
                                std::chrono::duration_cast<TierDeadline::duration>(
                                    std::chrono::duration<double, std::milli>(ms)));
}

}  // namespace quire
