#include "cli/interrupt.h"

#include <atomic>
#include <csignal>

namespace quire {
namespace {

// The system may run the handler on any thread; lock-free, so that it may.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void OnInterrupt(int) { interrupted = true; }

}  // namespace

void CatchInterrupts() {
  struct sigaction action{};
  action.sa_handler = OnInterrupt;
  // No SA_RESTART: a read from the terminal returns, so that the prompt can react.
  ::sigaction(SIGINT, &action, nullptr);
}

bool Interrupted() { return interrupted; }
void ClearInterrupt() { interrupted = false; }

}  // namespace quire
