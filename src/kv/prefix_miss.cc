#include "kv/prefix_miss.h"

#include <fmt/format.h>

namespace quire {
namespace {

// "12 ms", "3.4 s"
std::string Duration(double milliseconds) {
  if (milliseconds < 1000) return fmt::format("{:.3g} ms", milliseconds);
  return fmt::format("{:.1f} s", milliseconds / 1000);
}

std::string Where(const PrefixMiss& miss) {
  return miss.tier == "disk" ? "on disk" : fmt::format("in the {} tier", miss.tier);
}

}  // namespace

std::string_view NameOf(MissReason reason) {
  switch (reason) {
    case MissReason::kNone:
      return "none";
    case MissReason::kNeverSeen:
      return "never_seen";
    case MissReason::kDiffers:
      return "differs";
    case MissReason::kEvicted:
      return "evicted";
    case MissReason::kNotRead:
      return "not_read";
    case MissReason::kCheaperToCompute:
      return "cheaper_to_compute";
    case MissReason::kTierFault:
      return "tier_fault";
    case MissReason::kTierDown:
      return "tier_down";
    case MissReason::kOtherModel:
      return "other_model";
  }
  return "";
}

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

}  // namespace quire
