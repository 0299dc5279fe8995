#include "models/operator_times.h"

#include <numeric>

namespace quire {

double OperatorTimes::total_ms() const { return std::accumulate(ms.begin(), ms.end(), 0.0); }

void OperatorClock::ChargeLap(DecoderOperator operators) {
  const auto now = std::chrono::steady_clock::now();
  times_->ms[static_cast<size_t>(operators)] +=
      std::chrono::duration<double, std::milli>(now - last_).count();
  last_ = now;
}

}  // namespace quire
