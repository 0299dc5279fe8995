// The body of GET /quire/cache: blocks, bytes and counts of the KV cache and its tiers, over all
// tenants. Places are told without passwords, as TierStatus has them.
#pragma once

#include <string>

#include "engine/engine_thread.h"
#include "plan/kv_cost.h"

namespace quire {

// `cost`: of the engine's keys and values, in the type that it stores.
std::string CacheBody(const EngineStatus& status, const KvCost& cost, int context_length);

}  // namespace quire
