// What a plain LRU of blocks finds of a trace: the yardstick of caches that cost something to keep.
#pragma once

#include <cstdint>

#include "kv/tiers/fast_motion/trace.h"

namespace quire::testing {

// In which order a prompt's blocks are used: with kTailsFirst the beginning is the last to go.
enum class UseOrder : uint8_t { kHeadsFirst, kTailsFirst };

// Share of the trace's block uses that are found: of each prompt the blocks up to the first that is
// not there. num_blocks: that are kept.
double LruHitRate(const Trace& trace, int64_t num_blocks, UseOrder order);

// The better of both orders.
double BestLruHitRate(const Trace& trace, int64_t num_blocks);

}  // namespace quire::testing
