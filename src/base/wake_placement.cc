#include "base/wake_placement.h"

#include <pthread.h>

namespace quire {

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
