// Whether a sanitizer watches this build: everything then takes some ten times as long, and the
// shadow of memory takes terabytes of address space (QUIRE_SHADOW_MEMORY).
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QUIRE_SHADOW_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define QUIRE_SHADOW_MEMORY 1
#endif
#endif

namespace quire::testing {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kHasThreadSanitizer = true;
#else
inline constexpr bool kHasThreadSanitizer = false;
#endif

#if defined(QUIRE_SHADOW_MEMORY)
inline constexpr bool kHasSanitizer = true;
#else
inline constexpr bool kHasSanitizer = false;
#endif

}  // namespace quire::testing
