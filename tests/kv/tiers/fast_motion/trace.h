// Hours of conversations with a chat service, made from a seed: which blocks each prompt consists
// of.
//
// The shape is that of the conversation trace published with Mooncake (Qin et al., FAST 2025),
// whose prompts are lists of 512-token blocks: half of the prompts go on from an earlier one after
// a while whose length is lognormal, lengths are heavy-tailed, a few system prompts are shared by
// many. What a plain LRU finds of it, by capacity, is what that trace gives (fast_motion_test.cc
// asserts it).
#pragma once

#include <cstdint>
#include <vector>

namespace quire::testing {

struct TraceBlock {
  int parent = -1;  // the block before it; -1 = it begins prompts
  int entry = 0;    // its place in them
};

struct TracePrompt {
  double at_s = 0;
  std::vector<int> blocks{};  // indexes into Trace::blocks, each the parent of the one after it
};

struct Trace {
  std::vector<TraceBlock> blocks{};
  std::vector<TracePrompt> prompts{};  // by time
  int64_t num_uses = 0;                // blocks of all prompts
};

struct TraceOptions {
  uint64_t seed = 1;
  double hours = 4;
  double conversations_per_s = .5;
  int max_blocks = 96;  // of a prompt
};

Trace MakeTrace(const TraceOptions& options);

}  // namespace quire::testing
