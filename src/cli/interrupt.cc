#include "cli/interrupt.h"

#include <csignal>

namespace quire {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void OnInterrupt(int) { interrupted = 1; }

}  // namespace

void CatchInterrupts() {
  struct sigaction action{};
  action.sa_handler = OnInterrupt;
  // No SA_RESTART: a read from the terminal returns, so that the prompt can react.
  ::sigaction(SIGINT, &action, nullptr);
}

bool Interrupted() { return interrupted != 0; }
void ClearInterrupt() { interrupted = 0; }

}  // namespace quire
