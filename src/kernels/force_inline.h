// Functions that must become part of the loop that calls them: a call inside a kernel would send
// its vectors through memory, and a copy left outside would be one more symbol of an instruction
// set.
#pragma once

#define QUIRE_FORCE_INLINE inline __attribute__((always_inline))
