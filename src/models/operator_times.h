// Where the time of a forward pass goes, by what its operations do.
//
// A lap clock: every moment between the first and the last reading belongs to just one operator, so
// the times add up to the time of the pass. Read by the thread that calls the decoder: what the
// pool's threads do together counts once, by the clock on the wall. Without a place to put them no
// clock is read.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

#include "tensor/decoder_operator.h"

namespace quire {

struct OperatorTimes {
  std::array<double, kNumDecoderOperators> ms{};  // by DecoderOperator

  double total_ms() const;
};

class OperatorClock {
 public:
  // Null: nothing is measured.
  explicit OperatorClock(OperatorTimes* times) : times_(times) {
    if (times_ != nullptr) last_ = std::chrono::steady_clock::now();
  }

  // The time since the last call went into these operators.
  void Charge(DecoderOperator operators) {
    if (times_ != nullptr) ChargeLap(operators);
  }

 private:
  void ChargeLap(DecoderOperator operators);

  OperatorTimes* times_;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace quire
