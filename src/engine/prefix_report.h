// What the cache holds of a prompt at this moment, without computing anything.
#pragma once

#include "engine/engine.h"

namespace quire {

struct PrefixReport {
  PrefixMatch match{};  // as of a request that were admitted at this moment
  PrefixMiss miss{};    // why not more; found under the request's salt alone
};

// By whoever steps the engine. request.prompt holds a token at least.
PrefixReport ReportPrefix(const Engine& engine, const Request& request);

}  // namespace quire
