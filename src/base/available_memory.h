// How much memory this process may still take.
#pragma once

#include <cstdint>

namespace quire {

// Bytes that the system has available without swapping (MemAvailable of /proc/meminfo), or less
// where a control group allows less. 0 where the system does not say.
uint64_t AvailableMemory();

}  // namespace quire
