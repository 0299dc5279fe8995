#include "server/openai/usage.h"

#include <algorithm>
#include <cmath>

#include "server/openai/miss.h"
#include "server/openai/response.h"

namespace quire {
namespace {

// Thousandths of a millisecond are enough.
double Rounded(double milliseconds) { return std::round(milliseconds * 1000) / 1000; }

double PrefillMs(const RequestResult& result) {
  // Without a first token, up to the end.
  const double end = result.first_token_ms > 0 ? result.first_token_ms : result.total_ms;
  return std::max(0.0, end - result.queue_ms);
}

}  // namespace

CachedTokens PartedCachedTokens(const RequestResult& result) {
  const int cached = std::max(result.cached_tokens, 0);
  CachedTokens parts;
  parts.disk = std::clamp(result.cached_by_tier.disk, 0, cached);
  parts.remote = std::clamp(result.cached_by_tier.remote, 0, cached - parts.disk);
  parts.memory = cached - parts.disk - parts.remote;
  return parts;
}

void UsageSum::Taken::Add(const Taken& other) {
  queue_ms = std::max(queue_ms, other.queue_ms);
  prefill_ms = std::max(prefill_ms, other.prefill_ms);
  tier_wait_ms = std::max(tier_wait_ms, other.tier_wait_ms);
  preemptions += other.preemptions;
  cached.memory += other.cached.memory;
  cached.disk += other.cached.disk;
  cached.remote += other.cached.remote;
  if (miss.empty()) miss = other.miss;
}

void UsageSum::Taken::Write(JsonWriter& json) const {
  json.Key("queue_ms");
  json.Number(Rounded(queue_ms));
  json.Key("prefill_ms");
  json.Number(Rounded(prefill_ms));
  json.Key("tier_wait_ms");
  json.Number(Rounded(tier_wait_ms));
  json.Key("preemptions");
  json.Int(preemptions);
  json.Key("cached_by_tier");
  json.BeginObject();
  json.Key("memory");
  json.Int(cached.memory);
  json.Key("disk");
  json.Int(cached.disk);
  json.Key("remote");
  json.Int(cached.remote);
  json.EndObject();
  json.Key("miss");
  json.Raw(miss);
}

void UsageSum::Add(const PromptAnswer& answer, bool counts_answer, const Tokenizer& tokenizer) {
  const RequestResult& result = answer.result;
  prompt_tokens_ += result.prompt_tokens;
  cached_tokens_ += result.cached_tokens;
  if (counts_answer) {
    completion_tokens_ += result.completion_tokens();
    draft_tokens_ += result.draft_tokens;
    accepted_draft_tokens_ += result.accepted_draft_tokens;
  }
  if (!with_quire_) return;
  Taken taken{.queue_ms = result.queue_ms,
              .prefill_ms = PrefillMs(result),
              .tier_wait_ms = result.tier_wait_ms,
              .preemptions = result.num_preemptions,
              .cached = PartedCachedTokens(result)};
  JsonWriter miss(taken.miss);
  WriteMiss(result.miss, answer.prompt, tokenizer, miss);
  taken_.Add(taken);
  std::string prompt;
  JsonWriter json(prompt);
  json.BeginObject();
  taken.Write(json);
  json.Key("cached_tokens");
  json.Int(result.cached_tokens);
  json.EndObject();
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
  json.Key("completion_tokens_details");
  json.BeginObject();
  json.Key("accepted_prediction_tokens");
  json.Int(accepted_draft_tokens_);
  json.Key("rejected_prediction_tokens");
  json.Int(draft_tokens_ - accepted_draft_tokens_);
  json.EndObject();
  if (with_quire_ && !prompts_.empty()) {
    json.Key("quire");
    json.BeginObject();
    taken_.Write(json);
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
