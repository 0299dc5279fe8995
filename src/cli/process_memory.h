// What the system and the heap say of this process's memory, in bytes.
//
// A page counts for the ranges that it lies in by their part of it, so ranges that share a page are
// not counted twice. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"

namespace quire {

// In memory just now, code and mapped files included; and the most that ever was. kIo where the
// system does not say.
Result<uint64_t> ResidentBytes();
Result<uint64_t> PeakResidentBytes();

// Of a range, what lies in memory.
Result<uint64_t> ResidentBytes(std::span<const std::byte> range);

// What the heap has given out and not got back, over all threads.
uint64_t HeapBytes();
// Gives back to the system what the heap holds and has not given out.
void TrimHeap();

}  // namespace quire
