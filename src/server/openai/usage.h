// What a response says about what it took.
//
//   {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details":
//    {"cached_tokens"}, "completion_tokens_details": {"accepted_prediction_tokens",
//    "rejected_prediction_tokens"}, "quire": {...}}
//
// Predictions are the engine's drafts (docs/speculation.md). Those that were accepted are part of
// completion_tokens; those that were not are not.
//
// `quire`, where asked for: queue_ms, prefill_ms and tier_wait_ms (the longest of the body's
// prompts), preemptions and cached_by_tier {"memory", "disk", "remote"} (of all; the latter sums up
// to cached_tokens), and miss: why more of the first prompt was not cached (openai/miss.h), null
// where all was that can be. A body of several prompts has `prompts` beside them, one object each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/openai/json_writer.h"

namespace quire {

struct PromptAnswer;

// Where a prompt's cached tokens came from. They sum up to cached_tokens, whatever the tiers say.
CachedTokens PartedCachedTokens(const RequestResult& result);

class UsageSum {
 public:
  explicit UsageSum(bool with_quire) : with_quire_(with_quire) {}

  // counts_answer: off where its tokens are not shown.
  void Add(const PromptAnswer& answer, bool counts_answer, const Tokenizer& tokenizer);
  void Write(JsonWriter& json) const;

 private:
  // What `quire` tells, of one prompt or of all.
  struct Taken {
    double queue_ms = 0;
    double prefill_ms = 0;
    double tier_wait_ms = 0;
    int64_t preemptions = 0;
    CachedTokens cached{};
    std::string miss{};  // JSON

    void Add(const Taken& other);
    void Write(JsonWriter& json) const;
  };

  bool with_quire_;
  int64_t prompt_tokens_ = 0;
  int64_t completion_tokens_ = 0;
  int64_t cached_tokens_ = 0;
  int64_t draft_tokens_ = 0;
  int64_t accepted_draft_tokens_ = 0;
  Taken taken_{};
  std::vector<std::string> prompts_;  // JSON, one a prompt
};

}  // namespace quire
