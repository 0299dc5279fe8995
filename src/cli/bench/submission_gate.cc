#include "cli/bench/submission_gate.h"

namespace quire {

std::optional<int> SubmissionGate::Next() {
  if (in_flight_ == 0) is_batch_open_ = true;
  const bool is_full = max_in_flight_ > 0 && in_flight_ >= max_in_flight_;
  if (is_full || waiting_.empty() || (batching_ == Batching::kStatic && !is_batch_open_)) {
    // What arrives from here on belongs to the next batch.
    is_batch_open_ = false;
    return std::nullopt;
  }
  const int request = waiting_.front();
  waiting_.pop_front();
  ++in_flight_;
  return request;
}

}  // namespace quire
