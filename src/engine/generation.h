// One answer: tokens sampled one by one until something ends it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "sampling/log_probs.h"
#include "sampling/parameters.h"

namespace quire {

enum class FinishReason : uint8_t {
  kStop,         // an end-of-text token, a stop token or a stop string
  kLength,       // max_tokens or the context is reached
  kInterrupted,  // a hook said so
};
// "stop", "length", "interrupted"
std::string_view NameOf(FinishReason reason);

struct GenerationOptions {
  SamplingParameters sampling{};
  int max_tokens = -1;                    // -1 = until the context is full; at least 1 otherwise
  std::vector<std::string> stops{};       // text that ends the answer; not part of it
  std::vector<int32_t> stop_token_ids{};  // beside the model's end-of-text ids
  bool ignore_end_of_text = false;
  bool use_kv_cache = true;  // off: every step computes all tokens again
};

// Called by the thread that generates. May be empty.
struct GenerationHooks {
  // Text that is part of the answer for good, in whole characters.
  std::function<void(std::string_view text)> on_text{};
  // After each step; `token` is what was sampled from its logits, where it gave some.
  std::function<void(const StepRecord& step, const Sequence& sequence,
                     std::optional<int32_t> token)>
      on_step{};
  // Asked before each step; true ends the answer.
  std::function<bool()> interrupted{};
};

struct GenerationResult {
  std::string text;                 // the answer, stop string and end-of-text token left out
  std::vector<int32_t> tokens;      // every sampled id, the one that ended the answer included
  std::vector<LogProbs> log_probs;  // [tokens], where asked for
  FinishReason finish_reason = FinishReason::kStop;
  int prompt_tokens = 0;
  int cached_tokens = 0;      // of the prompt: entries that an earlier answer left
  uint64_t seed = 0;          // that fixes the draws
  double first_token_ms = 0;  // from the call to the first sampled token
  double decode_ms = 0;       // from the first sampled token to the last
};

// Answers a sequence whose tokens are the prompt; the sampled tokens are appended to it. The prompt
// has at least one token and leaves room for one more (kContextLength otherwise).
Result<GenerationResult> Generate(Engine& engine, Sequence& sequence,
                                  const GenerationOptions& options, const GenerationHooks& hooks);

}  // namespace quire
