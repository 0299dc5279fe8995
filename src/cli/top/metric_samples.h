// The samples of a Prometheus exposition (text form, version 0.0.4), read from a server that nobody
// vouches for.
//
// Invariants:
//   1. At most kMaxSamples samples of at most kMaxLabels labels, from lines of at most
//   kMaxLineBytes
//      bytes: what is beyond is an error, never a cut text.
//   2. Time and memory are linear in the text.
// Comments, HELP and TYPE lines and timestamps are passed over. A line that is no sample is
// kCorrupt, with its number. Values that are not finite count as nothing in sums.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/top/latency_histogram.h"

namespace quire {

struct MetricSample {
  std::vector<std::pair<std::string, std::string>> labels{};  // as they stand, unescaped
  double value = 0;

  // Null where it has no such label.
  const std::string* Label(std::string_view name) const;
};

class MetricSamples {
 public:
  static constexpr size_t kMaxSamples = 20'000;
  static constexpr size_t kMaxLabels = 32;
  static constexpr size_t kMaxLineBytes = 16 * 1024;

  static Result<MetricSamples> Parse(std::string_view text);

  // Nothing where there is no sample of that name.
  std::optional<double> Find(std::string_view name) const;
  // Of all samples of that name; 0 where there is none.
  double Sum(std::string_view name) const;
  double Sum(std::string_view name, std::string_view label, std::string_view value) const;
  // A label of the first sample of that name; empty where there is none.
  std::string LabelOf(std::string_view name, std::string_view label) const;
  // NAME_bucket, NAME_sum and NAME_count; series of several labels are added up.
  LatencyHistogram HistogramOf(std::string_view name) const;

  size_t num_samples() const { return num_samples_; }

 private:
  const std::vector<MetricSample>& Named(std::string_view name) const;

  std::map<std::string, std::vector<MetricSample>, std::less<>> samples_;  // by name
  size_t num_samples_ = 0;
};

}  // namespace quire
