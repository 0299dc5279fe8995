// Loading a prefix from a tier against computing it (plan/break_even.h), as /quire/plan tells it.
#pragma once

#include "engine/engine_thread.h"
#include "plan/kv_cost.h"
#include "server/openai/json_writer.h"

namespace quire {

// An object, from the engine's own measures: what has not been measured is null.
void WriteBreakEven(const EngineStatus& status, const KvCost& cost, int context_length,
                    JsonWriter& json);

}  // namespace quire
