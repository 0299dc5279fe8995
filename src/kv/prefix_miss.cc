#include "kv/prefix_miss.h"

namespace quire {

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

}  // namespace quire
