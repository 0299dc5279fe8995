#include "base/wake_placement.h"

#include <pthread.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace quire {

bool WakePlacement::IsNeeded() {
#if defined(__x86_64__)
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned kHypervisor = 1u << 31;  // of leaf 1, which processors themselves leave 0
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & kHypervisor) != 0;
#else
  return false;
#endif
}

bool WakePlacement::KeepOff(std::span<std::thread> sleepers) {
  const int processor = ::sched_getcpu();
  if (processor < 0 || ::sched_getaffinity(0, sizeof(allowed_), &allowed_) != 0) return false;
  cpu_set_t others = allowed_;
  CPU_CLR(processor, &others);
  if (CPU_COUNT(&others) == 0) return false;
  for (std::thread& sleeper : sleepers) {
    ::pthread_setaffinity_np(sleeper.native_handle(), sizeof(others), &others);
  }
  return true;
}

void WakePlacement::Settle() const { ::sched_setaffinity(0, sizeof(allowed_), &allowed_); }

}  // namespace quire
