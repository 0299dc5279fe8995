// What a running engine holds in memory, part by part: what `quire plan --verify` sets beside the
// plan of it (plan/memory_plan.h).
#pragma once

#include <cstddef>
#include <span>

namespace quire {

struct MemoryHeld {
  // Address ranges that the parts lie in. Of keys and values those are all blocks, and the blocks
  // that were never taken are not in memory.
  std::span<const std::byte> weights{};
  std::span<const std::byte> kv{};
  std::span<const std::byte> workspace{};  // activations, of the largest step so far
  // Bytes of the heap.
  size_t attention_bytes = 0;  // scratch of the attention
  size_t logits_bytes = 0;     // rows of the largest step so far
  size_t sampling_bytes = 0;   // scratch of the samplers, of all threads
};

}  // namespace quire
