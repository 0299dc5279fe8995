#include "kv/tiers/tier_speed.h"

#include <algorithm>
#include <cmath>

namespace quire {

namespace {

bool IsDuration(double ms) { return std::isfinite(ms) && ms > 0; }

}  // namespace

void TierSpeedMeter::Samples::Add(double value) {
  if (values.size() < kSamples) {
    values.push_back(value);
    return;
  }
  values[next] = value;
  next = (next + 1) % kSamples;
}

double TierSpeedMeter::Samples::Median() const {
  if (values.empty()) return 0;
  std::vector<double> sorted = values;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

void TierSpeedMeter::Observe(size_t first_bytes, double first_ms, size_t num_bytes,
                             double total_ms) {
  if (!IsDuration(first_ms) || !IsDuration(total_ms) || first_bytes == 0) return;
  const auto first = static_cast<double>(first_bytes);
  if (num_bytes > first_bytes && total_ms > first_ms) {
    const double rate = static_cast<double>(num_bytes - first_bytes) / (total_ms - first_ms);
    bytes_per_ms_.Add(rate);
    latencies_ms_.Add(std::max(0.0, first_ms - first / rate));
  } else if (!bytes_per_ms_.values.empty()) {
    const double rate = bytes_per_ms_.Median();
    latencies_ms_.Add(std::max(0.0, first_ms - first / rate));
    // One block says nothing of the bandwidth, unless it came sooner than that allows.
    if (first / first_ms > rate) bytes_per_ms_.Add(first / first_ms);
  } else {
    lone_bytes_per_ms_.Add(first / first_ms);
  }
}

void TierSpeedMeter::Observe(const TierSpeed& speed) {
  if (!IsDuration(speed.bytes_per_ms) || !std::isfinite(speed.latency_ms)) return;
  bytes_per_ms_.Add(speed.bytes_per_ms);
  latencies_ms_.Add(std::max(0.0, speed.latency_ms));
}

TierSpeed TierSpeedMeter::speed() const {
  if (bytes_per_ms_.values.empty()) {
    return {.latency_ms = 0, .bytes_per_ms = lone_bytes_per_ms_.Median()};
  }
  return {.latency_ms = latencies_ms_.Median(), .bytes_per_ms = bytes_per_ms_.Median()};
}

}  // namespace quire
