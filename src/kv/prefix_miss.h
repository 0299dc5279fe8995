// Why a prompt's prefix was not found further than it was: plain data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

enum class MissReason : uint8_t {
  kNone,              // all was found that may be: everything but the last token
  kNeverSeen,         // nothing cached goes on from there
  kDiffers,           // what is cached goes on with other tokens
  kEvicted,           // it was cached, and gave way
  kNotRead,           // the request asks for what the cache does not hold, or not to use it
  kCheaperToCompute,  // a tier has it, and computing it is sooner
  kTierFault,         // a tier has it, and it did not come, or did not prove itself
  kTierDown,          // a tier that may have it is not asked for the present
  kOtherModel,        // a tier has it, computed by another model
};
inline constexpr int kNumMissReasons = 9;
// "none", "never_seen", "differs", "evicted", "not_read", "cheaper_to_compute", "tier_fault",
// "tier_down", "other_model"
std::string_view NameOf(MissReason reason);

struct PrefixMiss {
  MissReason reason = MissReason::kNone;
  int position = 0;  // of the first token that was not found
  // kDiffers: what the cache has there instead, at most 16 token ids; of several the one with the
  // longest common beginning.
  std::vector<int32_t> cached_tokens{};
  // kEvicted: before the request was admitted; negative = longer ago than is remembered
  double evicted_ms_ago = 0;
  // Of the last four: the tier, "disk" or "remote".
  std::string tier{};
  // kTierFault: the fault (kv/tiers/record.h); kTierDown: why it is down; kOtherModel: the
  // ingredient of the fingerprint that differs.
  std::string detail{};
  double down_for_ms = 0;  // kTierDown
  double load_ms = 0;      // kCheaperToCompute: expected
  double compute_ms = 0;
};

// Why a tier is down names servers and directories: that is for operators alone.
enum class MissReader : uint8_t { kRequester, kOperator };

// One line for people: "on disk, cheaper to compute: 3.1 ms, loading takes 12 ms". Empty where
// nothing was missed.
std::string MissText(const PrefixMiss& miss, MissReader reader);

}  // namespace quire
