// What a tier costs: time for the first byte, and bytes a millisecond after that.
#pragma once

#include <cstddef>
#include <vector>

namespace quire {

struct TierSpeed {
  double latency_ms = 0;
  double bytes_per_ms = 0;  // 0 = not known

  // Of loading so many bytes at once; 0 while nothing is known.
  double Ms(size_t num_bytes) const {
    return bytes_per_ms > 0 ? latency_ms + static_cast<double>(num_bytes) / bytes_per_ms : 0;
  }
};

// Follows what loads tell: medians of the last loads, so that one slow load moves nothing and a
// lasting change is followed within half as many. Thread-compatible.
class TierSpeedMeter {
 public:
  static constexpr int kSamples = 15;

  // The first block of a batch of loads was there after first_ms, all `num_bytes` of the batch
  // after total_ms. Durations that are not positive and finite are passed over.
  //
  // What came after the first block tells the bandwidth, and the first block, less what its bytes
  // take, the latency. Of a batch of one block the two cannot be told apart: it is all latency
  // beyond the bandwidth that is known, and all bandwidth while none is.
  void Observe(size_t first_bytes, double first_ms, size_t num_bytes, double total_ms);
  // A speed that was tried out: one sample.
  void Observe(const TierSpeed& speed);
  TierSpeed speed() const;

 private:
  // The last samples, in a ring.
  struct Samples {
    std::vector<double> values{};
    size_t next = 0;

    void Add(double value);
    double Median() const;  // 0 of none
  };

  Samples latencies_ms_;
  Samples bytes_per_ms_;
  // Of blocks alone, as long as there is nothing else.
  Samples lone_bytes_per_ms_;
};

}  // namespace quire
