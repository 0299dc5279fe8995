#include "engine/memory_fit.h"

#include <algorithm>
#include <limits>

#include "plan/memory_plan.h"

namespace quire {
namespace {

// The longest context whose entries fit into so many blocks.
int LongestContext(const KvLayout& layout, int64_t num_blocks, int chunk, int most) {
  return LargestThat(most, [&](int tokens) {
    return layout.PeakBlocks(tokens, std::min(chunk, tokens)) <= num_blocks;
  });
}

}  // namespace

Result<MemoryFit> FitMemory(const ModelShape& shape, const MemoryRequest& request) {
  const int made_for = shape.config.context_length;
  if (request.context_length < 0 || request.context_length > made_for) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "a context of {} tokens; the model was made for 1 to {}",
                     request.context_length, made_for);
  }
  const bool is_asked = request.context_length > 0;
  const int wanted = is_asked ? request.context_length : made_for;
  const int chunk = std::min(request.max_batched_tokens, wanted);
  MemoryFit fit;
  QUIRE_ASSIGN_OR_RETURN(fit.layout,
                         KvLayout::Make(KvShapesOfLayers(shape.config), request.kv_type));
  QUIRE_ASSIGN_OR_RETURN(const MemoryPlan plan,
                         PlanMemory(shape, {.kv_element = KvElementOf(request.kv_type),
                                            .context_tokens = wanted,
                                            .num_sequences = request.num_sequences,
                                            .prefill_chunk = request.max_batched_tokens,
                                            .num_threads = request.num_threads,
                                            .logits_rows = request.logits_rows}));
  const uint64_t other = plan.bytes_without_kv();
  const uint64_t known =
      request.available_bytes > 0 ? request.available_bytes : std::numeric_limits<uint64_t>::max();
  const uint64_t available =
      request.budget_bytes > 0 ? std::min(known, request.budget_bytes) : known;
  const uint64_t room = available > other ? available - other : 0;
  const uint64_t block = fit.layout.block_bytes;
  constexpr uint64_t kMostBlocks = std::numeric_limits<int32_t>::max();
  const auto blocks_in = [&](uint64_t bytes) {
    return static_cast<int64_t>(std::min(bytes / block, kMostBlocks));
  };
  const auto longest_in = [&](uint64_t bytes) {
    return LongestContext(fit.layout, blocks_in(bytes), chunk, wanted);
  };
  const int64_t one = fit.layout.PeakBlocks(wanted, chunk);

  if (request.kv_bytes > room) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "{} bytes of keys and values (--kv-size) and {} bytes for the rest need {}, "
                     "and {} are available; --kv-size {} would fit, a context of {} tokens",
                     request.kv_bytes, other, request.kv_bytes + other, available, room,
                     longest_in(room));
  }
  const uint64_t kv_limit = request.kv_bytes > 0 ? request.kv_bytes : room;
  fit.context_length = longest_in(kv_limit);
  if (fit.context_length < wanted && (is_asked || fit.context_length == 0)) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "a context of {} tokens takes {} bytes of keys and values in {}, and {} are "
                     "{}; a context of {} tokens would fit (--ctx-size)",
                     wanted, static_cast<uint64_t>(one) * block, NameOf(request.kv_type), kv_limit,
                     request.kv_bytes > 0 ? "allowed (--kv-size)" : "available",
                     fit.context_length);
  }
  int64_t num_blocks = blocks_in(kv_limit);
  if (request.kv_bytes == 0 && request.budget_bytes == 0) {
    const int64_t least = fit.layout.PeakBlocks(fit.context_length, chunk);
    num_blocks = std::max(least, std::min(one * request.num_sequences, blocks_in(room / 2)));
  }
  fit.num_blocks = static_cast<int>(std::min<int64_t>(num_blocks, kMostBlocks));
  return fit;
}

}  // namespace quire
