// Times that somebody else has counted into buckets, as Prometheus has them. Plain data.
#pragma once

#include <map>
#include <optional>

namespace quire {

struct LatencyHistogram {
  std::map<double, double> buckets{};  // upper bound in seconds -> observations up to it
  double count = 0;
  double sum_s = 0;

  // What has come since; a count that fell counts as nothing.
  LatencyHistogram Since(const LatencyHistogram& earlier) const;
  // Exact. Nothing where nothing was observed.
  std::optional<double> MeanSeconds() const;
  // Within the bucket where it lies by a straight line, as PromQL's histogram_quantile has it; the
  // last finite bound where it lies beyond. 0 < q < 1.
  std::optional<double> QuantileSeconds(double q) const;
};

}  // namespace quire
