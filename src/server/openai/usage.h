// What a response says about what it took.
//
//   {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details":
//    {"cached_tokens"}, "quire": {...}}
//
// `quire`, where asked for: queue_ms and prefill_ms (the longest of the body's prompts),
// preemptions (of all), and miss: why more of the first prompt was not cached, null where all was
// that can be. A body of several prompts has `prompts` beside them, one object each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/openai/json_writer.h"

namespace quire {

struct PromptAnswer;

// Why a prompt's prefix was not cached further, with the texts at that place: null where it was.
//   {"reason", "position", "prompt_text", "cached_text" (differs), "evicted_ms_ago" (evicted)}
void WriteMiss(const PrefixMiss& miss, std::span<const int32_t> prompt, const Tokenizer& tokenizer,
               JsonWriter& json);

class UsageSum {
 public:
  explicit UsageSum(bool with_quire) : with_quire_(with_quire) {}

  // counts_answer: off where its tokens are not shown.
  void Add(const PromptAnswer& answer, bool counts_answer, const Tokenizer& tokenizer);
  void Write(JsonWriter& json) const;

 private:
  bool with_quire_;
  int64_t prompt_tokens_ = 0;
  int64_t completion_tokens_ = 0;
  int64_t cached_tokens_ = 0;
  double queue_ms_ = 0;
  double prefill_ms_ = 0;
  int64_t preemptions_ = 0;
  std::vector<std::string> misses_;   // JSON, one a prompt
  std::vector<std::string> prompts_;  // JSON, one a prompt
};

}  // namespace quire
