#include "server/openai/usage.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "server/openai/response.h"

namespace quire {
namespace {

// As many tokens as the cache tells of its own.
constexpr size_t kMaxShownTokens = 16;

// Thousandths of a millisecond are enough.
double Rounded(double milliseconds) { return std::round(milliseconds * 1000) / 1000; }

double PrefillMs(const RequestResult& result) {
  // Without a first token, up to the end.
  const double end = result.first_token_ms > 0 ? result.first_token_ms : result.total_ms;
  return std::max(0.0, end - result.queue_ms);
}

void WriteTimes(double queue_ms, double prefill_ms, int64_t preemptions, std::string_view miss,
                JsonWriter& json) {
  json.Key("queue_ms");
  json.Number(Rounded(queue_ms));
  json.Key("prefill_ms");
  json.Number(Rounded(prefill_ms));
  json.Key("preemptions");
  json.Int(preemptions);
  json.Key("miss");
  json.Raw(miss);
}

}  // namespace

void WriteMiss(const PrefixMiss& miss, std::span<const int32_t> prompt, const Tokenizer& tokenizer,
               JsonWriter& json) {
  if (miss.reason == MissReason::kNone) return json.Null();
  json.BeginObject();
  json.Key("reason");
  json.String(NameOf(miss.reason));
  json.Key("position");
  json.Int(miss.position);
  const auto text = [&](std::string_view name, std::span<const int32_t> tokens) {
    json.Key(name);
    json.String(RepairUtf8(tokenizer.Decode(tokens, /*with_control=*/true)));
  };
  const size_t position = std::min(static_cast<size_t>(std::max(miss.position, 0)), prompt.size());
  const std::span<const int32_t> rest = prompt.subspan(position);
  text("prompt_text", rest.first(std::min(rest.size(), kMaxShownTokens)));
  if (miss.reason == MissReason::kDiffers) text("cached_text", miss.cached_tokens);
  if (miss.reason == MissReason::kEvicted) {
    json.Key("evicted_ms_ago");
    json.Number(Rounded(miss.evicted_ms_ago));
  }
  json.EndObject();
}

void UsageSum::Add(const PromptAnswer& answer, bool counts_answer, const Tokenizer& tokenizer) {
  const RequestResult& result = answer.result;
  prompt_tokens_ += result.prompt_tokens;
  cached_tokens_ += result.cached_tokens;
  if (counts_answer) completion_tokens_ += result.completion_tokens();
  if (!with_quire_) return;
  const double prefill_ms = PrefillMs(result);
  queue_ms_ = std::max(queue_ms_, result.queue_ms);
  prefill_ms_ = std::max(prefill_ms_, prefill_ms);
  preemptions_ += result.num_preemptions;
  std::string miss;
  JsonWriter miss_json(miss);
  WriteMiss(result.miss, answer.prompt, tokenizer, miss_json);
  std::string prompt;
  JsonWriter json(prompt);
  json.BeginObject();
  WriteTimes(result.queue_ms, prefill_ms, result.num_preemptions, miss, json);
  json.Key("cached_tokens");
  json.Int(result.cached_tokens);
  json.EndObject();
  misses_.push_back(std::move(miss));
  prompts_.push_back(std::move(prompt));
}

void UsageSum::Write(JsonWriter& json) const {
  json.BeginObject();
  json.Key("prompt_tokens");
  json.Int(prompt_tokens_);
  json.Key("completion_tokens");
  json.Int(completion_tokens_);
  json.Key("total_tokens");
  json.Int(prompt_tokens_ + completion_tokens_);
  json.Key("prompt_tokens_details");
  json.BeginObject();
  json.Key("cached_tokens");
  json.Int(cached_tokens_);
  json.EndObject();
  if (with_quire_ && !prompts_.empty()) {
    json.Key("quire");
    json.BeginObject();
    WriteTimes(queue_ms_, prefill_ms_, preemptions_, misses_.front(), json);
    if (prompts_.size() > 1) {
      json.Key("prompts");
      json.BeginArray();
      for (const std::string& prompt : prompts_) json.Raw(prompt);
      json.EndArray();
    }
    json.EndObject();
  }
  json.EndObject();
}

}  // namespace quire
