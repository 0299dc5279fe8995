// Why a prompt's prefix was not found further than it was: plain data.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace quire {

enum class MissReason : uint8_t {
  kNone,       // all was found that may be: everything but the last token
  kNeverSeen,  // nothing cached goes on from there
  kDiffers,    // what is cached goes on with other tokens
  kEvicted,    // it was cached, and gave way
  kNotRead,    // the request asks for what the cache does not hold, or not to use it
};
// "none", "never_seen", "differs", "evicted", "not_read"
std::string_view NameOf(MissReason reason);

struct PrefixMiss {
  MissReason reason = MissReason::kNone;
  int position = 0;  // of the first token that was not found
  // kDiffers: what the cache has there instead, at most 16 token ids; of several the one with the
  // longest common beginning.
  std::vector<int32_t> cached_tokens{};
  // kEvicted: before the request was admitted; negative = longer ago than is remembered
  double evicted_ms_ago = 0;
};

}  // namespace quire
