// What the cache holds of a prompt at this moment, without computing anything.
#pragma once

#include "engine/engine.h"

namespace quire {

struct PrefixReport {
  PrefixMatch match{};  // as of a request that were admitted at this moment
  PrefixMiss miss{};    // why not more; found under the request's salt alone
  // Beyond the match, entries that tiers hold, as far as they know without being asked (a disk
  // does, a server does not).
  int tier_tokens = 0;
};

// By whoever steps the engine. request.prompt holds a token at least.
PrefixReport ReportPrefix(const Engine& engine, const Request& request);

}  // namespace quire
