// Seeds for requests that bring none.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace quire {

// 64 unpredictable bits from the operating system. Thread-safe.
Result<uint64_t> RandomSeed();

}  // namespace quire
