// What a client asks of the engine, and what it gets back.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/cached_tokens.h"
#include "kv/prefix_miss.h"
#include "sampling/log_probs.h"
#include "sampling/parameters.h"
#include "text/tokenizer.h"

namespace quire {

using RequestId = int64_t;

struct BeamOptions {
  int width = 0;              // beams kept; 0 = no beam search, at most kMaxLogProbs / 2 otherwise
  double length_penalty = 1;  // score = sum of log-probabilities / length^length_penalty
  bool early_stopping = false;  // ends as soon as `width` answers have ended
};

// How the final hidden states of a prompt's tokens become one vector, which is then scaled to
// length 1.
enum class Pooling : uint8_t { kMean, kLast };

struct Request {
  std::vector<int32_t> prompt{};  // token ids, at least one
  // The text that `prompt` was encoded from. Where given, the answer's ids are remembered with it
  // and found again when it comes back as text (engine/answer_index.h).
  std::vector<PromptPiece> prompt_pieces{};

  SamplingParameters sampling{};
  int num_choices = 1;  // n: answers, drawn independently; with beams, the best so many
  int max_tokens = -1;  // of each answer; -1 = until the context is full; at least 1 otherwise
  int min_tokens = 0;   // before these, no end-of-text, stop token or stop string ends an answer
  std::vector<std::string> stops{};       // text that ends an answer; not part of it
  bool include_stop = false;              // the text keeps the stop string or token that ended it
  std::vector<int32_t> stop_token_ids{};  // beside the model's end-of-text ids
  bool ignore_end_of_text = false;
  // In the text, spelled out, and stop strings see them (skip_special_tokens: false). The one that
  // ends an answer is shown with include_stop only, as any token that does.
  bool show_control_tokens = false;
  // Log-probabilities of so many best tokens and of the true one at each prompt position, 0 to
  // kMaxLogProbs. What the cache holds cannot tell them: the prompt is computed, cached_tokens 0.
  std::optional<int> prompt_logprobs{};
  BeamOptions beams{};
  // Asks for the prompt's embedding instead of an answer: nothing is sampled, what is said of
  // answers above means nothing, and the prompt may fill the context. The cache does not hold
  // hidden states: the prompt is computed, cached_tokens 0, and its keys and values stay for
  // others.
  std::optional<Pooling> embedding{};

  std::string cache_salt{};            // prefixes are shared among equal salts
  int priority = 0;                    // lower is more urgent
  std::optional<double> timeout_ms{};  // from submission to the end
  // Requests of one tenant together hold no more blocks than its quota; 0 = no limit of its own.
  std::string tenant{};
  int64_t tenant_max_blocks = 0;
  bool use_kv_cache = true;  // off: every step computes all tokens again
  // Of the engine's drafts a step, at most so many (docs/speculation.md); 0 = none.
  std::optional<int> max_drafts{};
  std::string name{};  // that others know it by, for traces (trace/events.h)
};

enum class FinishReason : uint8_t {
  kStop,     // an end-of-text token, a stop token or a stop string
  kLength,   // max_tokens or the context is reached
  kAborted,  // Abort was called
  kTimeout,  // timeout_ms ran out
  kError,    // RequestResult::status says what
};
// "stop", "length", "abort", "timeout", "error"
std::string_view NameOf(FinishReason reason);

struct Choice {
  int index = 0;
  std::string text{};                 // what ended it left out, unless Request::include_stop
  std::vector<int32_t> tokens{};      // every sampled id, the one that ended the answer included
  std::vector<LogProbs> log_probs{};  // [tokens], where asked for
  FinishReason finish_reason = FinishReason::kStop;
  // The stop string that ended it; with Request::include_stop also one that the stop token's text
  // completes.
  std::optional<std::string> matched_stop{};
  std::optional<int32_t>
      matched_stop_token{};        // the stop token that ended it, end-of-text included
  double cumulative_log_prob = 0;  // of its tokens, with logprobs or beams
  double score = 0;                // with beams: what they are ordered by
};

struct RequestResult {
  RequestId id = 0;
  Status status{};  // of a kError; of an embedding, whatever kept it from coming
  int prompt_tokens = 0;
  int cached_tokens = 0;          // of the prompt: entries found in the cache; 0 <= cached < prompt
  CachedTokens cached_by_tier{};  // the same, parted
  PrefixMiss miss{};              // why not more
  double tier_wait_ms = 0;        // that it could have run, and waited for a tier
  int num_preemptions = 0;
  int draft_tokens = 0;           // computed for it on speculation
  int accepted_draft_tokens = 0;  // of them, those that were drawn
  // [prompt_tokens], the first empty; where asked for
  std::vector<std::optional<LogProbs>> prompt_log_probs{};
  std::vector<float> embedding{};  // [embedding_length], of length 1; where asked for
  std::vector<Choice> choices{};   // by index; of beams none where no token came
  uint64_t seed = 0;               // that fixes the draws
  double queue_ms = 0;             // from submission to the first step that computes it, or the end
  double first_token_ms = 0;       // from submission to the first sampled token; 0 = none came
  double decode_ms = 0;            // from the first sampled token to the last
  double total_ms = 0;             // from submission to the end

  int completion_tokens() const {
    int count = 0;
    for (const Choice& choice : choices) count += static_cast<int>(choice.tokens.size());
    return count;
  }
};

// A sampled token, as it comes. With beams there are none: what stands is known at the end.
struct AnswerPiece {
  int choice = 0;
  int32_t token = 0;  // -1: none, the answer was ended from outside and this text was held back
  std::string_view text{};  // that is part of the answer for good, in whole characters
  const LogProbs* log_probs = nullptr;
};

// Called by the thread that steps the engine. May be empty. They may call Submit and Abort.
struct RequestHooks {
  std::function<void(const AnswerPiece& piece)> on_piece{};
  // Once, whatever the end.
  std::function<void(RequestResult result)> on_finish{};
};

}  // namespace quire
