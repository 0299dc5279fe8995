// The last writes of an engine's tiers, before a verb leaves.
#pragma once

#include "engine/engine.h"

namespace quire {

// Stores what memory alone holds, saying so on a terminal, and tells what could not be stored. The
// next Ctrl-C ends the process at once: what is not stored is computed again. Does nothing without
// tiers. How many blocks are left.
int64_t FlushTiers(Engine& engine);

}  // namespace quire
