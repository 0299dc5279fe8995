#include "models/operator_times.h"

#include <numeric>

namespace quire {

std::string_view NameOf(DecoderOperator operators) {
  switch (operators) {
    case DecoderOperator::kEmbed:
      return "embed";
    case DecoderOperator::kNorm:
      return "norm";
    case DecoderOperator::kProject:
      return "project";
    case DecoderOperator::kStoreKv:
      return "store_kv";
    case DecoderOperator::kAttend:
      return "attend";
    case DecoderOperator::kFeedForward:
      return "feed_forward";
    case DecoderOperator::kOutput:
      return "output";
  }
  return "";
}

double OperatorTimes::total_ms() const { return std::accumulate(ms.begin(), ms.end(), 0.0); }

void OperatorClock::ChargeLap(DecoderOperator operators) {
  const auto now = std::chrono::steady_clock::now();
  times_->ms[static_cast<size_t>(operators)] +=
      std::chrono::duration<double, std::milli>(now - last_).count();
  last_ = now;
}

}  // namespace quire
