// How much memory the KV cache gets and how long a context may be, settled before any weight is
// read.
//
// The figures are those of `quire plan` (plan/memory_plan.h): an engine that starts fits, and one
// that cannot fit says what would. Pure, any thread.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kv/layout.h"
#include "plan/model_shape.h"

namespace quire {

struct MemoryRequest {
  KvType kv_type = KvType::kF16;
  int context_length = 0;  // tokens; 0 = what the model was made for, or less where that cannot fit
  uint64_t kv_bytes = 0;   // for keys and values; 0 = enough for num_sequences whole contexts, at
                           // most half of what is left, and at least one of them
  int num_sequences = 1;   // that run at once
  int max_batched_tokens = 512;  // of a step
  int logits_rows = 0;           // held at once; 0 = one a sequence
  int num_threads = 1;
  uint64_t available_bytes = 0;  // of memory; 0 = not known, everything fits
  // For all that the process takes: keys and values get what the rest leaves. 0 = none.
  uint64_t budget_bytes = 0;
};

struct MemoryFit {
  KvLayout layout{};
  int context_length = 0;
  int num_blocks = 0;
};

// kInvalidArgument for a context that the model was not made for; kResourceExhausted, with what is
// needed, what is available and what would fit in tokens and bytes.
Result<MemoryFit> FitMemory(const ModelShape& shape, const MemoryRequest& request);

}  // namespace quire
