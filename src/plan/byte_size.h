// Sizes of memory as people write them and as Quire prints them. A unit is never left out: 8 GB and
// 8 GiB differ by 590 MB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// "8GB" (8e9 bytes), "8 GiB" (8 * 2^30), "1.5GiB", "512MiB", "8589934592" or "...B". Units are B,
// kB, MB, GB, TB and KiB, MiB, GiB, TiB, in any case; a fraction of a byte is dropped.
// kInvalidArgument for anything else, "8G" included: it means both.
Result<uint64_t> ParseByteSize(std::string_view text);

// 1234567 as "1,234,567".
std::string GroupDigits(uint64_t number);

// 1610612736 as "1,536.0 MiB, 1,610.6 MB"; below a MiB in KiB and kB.
std::string FormatUnits(uint64_t bytes);

// 1610612736 as "1,610,612,736 bytes (1,536.0 MiB, 1,610.6 MB)".
std::string FormatBytes(uint64_t bytes);

}  // namespace quire
