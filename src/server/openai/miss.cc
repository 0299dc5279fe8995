#include "server/openai/miss.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace quire {
namespace {

// As many tokens as the cache tells of its own.
constexpr size_t kMaxShownTokens = 16;

void Milliseconds(std::string_view name, double value, JsonWriter& json) {
  json.Key(name);
  // Thousandths are enough.
  json.Number(std::round(value * 1000) / 1000);
}

void Text(std::string_view name, std::string_view value, JsonWriter& json) {
  json.Key(name);
  json.String(RepairUtf8(value));
}

// "12 ms", "3.4 s"
std::string Duration(double milliseconds) {
  if (milliseconds < 1000) return fmt::format("{:.3g} ms", milliseconds);
  return fmt::format("{:.1f} s", milliseconds / 1000);
}

std::string Where(const PrefixMiss& miss) {
  return miss.tier == "disk" ? "on disk" : fmt::format("in the {} tier", miss.tier);
}

void WriteTierMembers(const PrefixMiss& miss, JsonWriter& json) {
  Text("tier", miss.tier, json);
  if (miss.reason == MissReason::kTierDown) Milliseconds("down_for_ms", miss.down_for_ms, json);
  if (miss.reason == MissReason::kTierFault || miss.reason == MissReason::kOtherModel) {
    Text("detail", miss.detail, json);
  }
  if (miss.reason == MissReason::kCheaperToCompute) {
    Milliseconds("load_ms", miss.load_ms, json);
    Milliseconds("compute_ms", miss.compute_ms, json);
  }
}

}  // namespace

std::string MissText(const PrefixMiss& miss, MissReader reader) {
  switch (miss.reason) {
    case MissReason::kNone:
      return "";
    case MissReason::kNeverSeen:
      return "not seen before";
    case MissReason::kDiffers:
      return fmt::format("what is cached goes on with other text at token {}", miss.position);
    case MissReason::kEvicted:
      return miss.evicted_ms_ago < 0 ? "evicted, longer ago than is remembered"
                                     : fmt::format("evicted {} ago", Duration(miss.evicted_ms_ago));
    case MissReason::kNotRead:
      return "the request does not read the cache";
    case MissReason::kCheaperToCompute:
      return fmt::format("{}, cheaper to compute: {}, loading takes {}", Where(miss),
                         Duration(miss.compute_ms), Duration(miss.load_ms));
    case MissReason::kTierFault:
      return fmt::format("{}, and of no use: {}", Where(miss), miss.detail);
    case MissReason::kTierDown: {
      const std::string text =
          fmt::format("the {} tier has been down for {}", miss.tier, Duration(miss.down_for_ms));
      const bool tells_why = reader == MissReader::kOperator && !miss.detail.empty();
      return tells_why ? fmt::format("{}: {}", text, miss.detail) : text;
    }
    case MissReason::kOtherModel:
      return fmt::format("{}, but of another model: {}", Where(miss), miss.detail);
  }
  return "";
}

void WriteMiss(const PrefixMiss& miss, std::span<const int32_t> prompt, const Tokenizer& tokenizer,
               JsonWriter& json) {
  if (miss.reason == MissReason::kNone) return json.Null();
  json.BeginObject();
  Text("reason", NameOf(miss.reason), json);
  Text("message", MissText(miss, MissReader::kRequester), json);
  json.Key("position");
  json.Int(miss.position);
  const auto tokens = [&](std::string_view name, std::span<const int32_t> ids) {
    Text(name, tokenizer.Decode(ids, /*with_control=*/true), json);
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
