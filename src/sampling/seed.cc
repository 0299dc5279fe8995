#include "sampling/seed.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace quire {

Result<uint64_t> RandomSeed() {
  uint64_t seed = 0;
  for (;;) {
    const ssize_t got = ::getrandom(&seed, sizeof(seed), 0);
    if (got == static_cast<ssize_t>(sizeof(seed))) return seed;
    if (got < 0 && errno != EINTR) {
      return MakeError(ErrorCode::kIo, "cannot draw a seed from the system: {}",
                       std::strerror(errno));
    }
  }
}

}  // namespace quire
