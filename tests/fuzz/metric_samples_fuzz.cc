// Any bytes as what a server says under /metrics: samples within the parser's bounds, or an error
// that says where; and histograms that can be asked whatever their buckets are.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "cli/top/metric_samples.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto samples = quire::MetricSamples::Parse(text);
  if (!samples.ok()) {
    QUIRE_CHECK(samples.error().message.starts_with("metrics: "));
    return 0;
  }
  QUIRE_CHECK(samples->num_samples() <= quire::MetricSamples::kMaxSamples);
  const quire::LatencyHistogram histogram = samples->HistogramOf("t");
  const quire::LatencyHistogram since = histogram.Since(samples->HistogramOf("u"));
  QUIRE_CHECK(since.count >= 0);
  for (const double q : {0.01, 0.5, 0.95}) {
    (void)histogram.QuantileSeconds(q);
    (void)since.QuantileSeconds(q);
  }
  (void)since.MeanSeconds();
  return 0;
}
