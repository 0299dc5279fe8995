// Why more of a prompt was not cached, told to clients.
#pragma once

#include <cstdint>
#include <span>

#include "kv/prefix_miss.h"
#include "server/openai/json_writer.h"
#include "text/tokenizer.h"

namespace quire {

// As JSON, with the texts at that place; null where nothing was missed. What a requester may know.
//   {"reason", "message", "position", "prompt_text", "cached_text" (differs),
//    "evicted_ms_ago" (evicted), "tier" (of the reasons that name one), "detail" (tier_fault: the
//    fault; other_model: the ingredient), "down_for_ms" (tier_down),
//    "load_ms" and "compute_ms" (cheaper_to_compute)}
void WriteMiss(const PrefixMiss& miss, std::span<const int32_t> prompt, const Tokenizer& tokenizer,
               JsonWriter& json);

}  // namespace quire
