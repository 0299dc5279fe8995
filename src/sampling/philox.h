// Philox4x32-10: random words as a function of a key and a counter, without a state.
//
// Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). A draw
// depends on its key and counter alone, so it is the same alone and in a crowd, before and after a
// resume.
#pragma once

#include <array>
#include <cstdint>

namespace quire {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The 64 bits that choose the token at `position` of choice `choice` of a request with `seed`.
uint64_t DrawBits(uint64_t seed, uint32_t choice, uint32_t position);

}  // namespace quire
