#include "cli/top/latency_histogram.h"

#include <algorithm>
#include <cmath>

namespace quire {

LatencyHistogram LatencyHistogram::Since(const LatencyHistogram& earlier) const {
  LatencyHistogram since = *this;
  for (auto& [bound, observations] : since.buckets) {
    const auto found = earlier.buckets.find(bound);
    if (found != earlier.buckets.end()) observations = std::max(0.0, observations - found->second);
  }
  since.count = std::max(0.0, count - earlier.count);
  since.sum_s = std::max(0.0, sum_s - earlier.sum_s);
  return since;
}

std::optional<double> LatencyHistogram::MeanSeconds() const {
  if (count <= 0) return std::nullopt;
  return sum_s / count;
}

std::optional<double> LatencyHistogram::QuantileSeconds(double q) const {
  if (buckets.empty() || buckets.rbegin()->second <= 0) return std::nullopt;
  const double rank = q * buckets.rbegin()->second;
  double lower = 0;
  double before = 0;
  for (const auto& [bound, observations] : buckets) {
    if (observations >= rank) {
      if (std::isinf(bound) || observations <= before) return lower;
      return lower + (bound - lower) * (rank - before) / (observations - before);
    }
    lower = bound;
    before = std::max(before, observations);
  }
  return lower;
}

}  // namespace quire
