#include "server/openai/miss.h"

#include <algorithm>
#include <cmath>

#include "server/openai/json_members.h"

namespace quire {
namespace {

// As many tokens as the cache tells of its own.
constexpr size_t kMaxShownTokens = 16;

void Milliseconds(std::string_view name, double value, JsonWriter& json) {
  // Thousandths are enough.
  NumberMember(name, std::round(value * 1000) / 1000, json);
}

void WriteTierMembers(const PrefixMiss& miss, JsonWriter& json) {
  TextMember("tier", miss.tier, json);
  if (miss.reason == MissReason::kTierDown) Milliseconds("down_for_ms", miss.down_for_ms, json);
  if (miss.reason == MissReason::kTierFault || miss.reason == MissReason::kOtherModel) {
    TextMember("detail", miss.detail, json);
  }
  if (miss.reason == MissReason::kCheaperToCompute) {
    Milliseconds("load_ms", miss.load_ms, json);
    Milliseconds("compute_ms", miss.compute_ms, json);
  }
}

}  // namespace

void WriteMiss(const PrefixMiss& miss, std::span<const int32_t> prompt, const Tokenizer& tokenizer,
               JsonWriter& json) {
  if (miss.reason == MissReason::kNone) return json.Null();
  json.BeginObject();
  TextMember("reason", NameOf(miss.reason), json);
  TextMember("message", MissText(miss, MissReader::kRequester), json);
  IntMember("position", miss.position, json);
  const auto tokens = [&](std::string_view name, std::span<const int32_t> ids) {
    TextMember(name, tokenizer.Decode(ids, /*with_control=*/true), json);
  };
  const size_t position = std::min(static_cast<size_t>(std::max(miss.position, 0)), prompt.size());
  const std::span<const int32_t> rest = prompt.subspan(position);
  tokens("prompt_text", rest.first(std::min(rest.size(), kMaxShownTokens)));
  if (miss.reason == MissReason::kDiffers) tokens("cached_text", miss.cached_tokens);
  if (miss.reason == MissReason::kEvicted) {
    Milliseconds("evicted_ms_ago", miss.evicted_ms_ago, json);
  }
  if (miss.reason >= MissReason::kCheaperToCompute) WriteTierMembers(miss, json);
  json.EndObject();
}

}  // namespace quire
