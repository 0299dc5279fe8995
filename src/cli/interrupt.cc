#include "cli/interrupt.h"

#include <semaphore.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

namespace quire {
namespace {

// The system may run the handler on any thread; lock-free, so that it may.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void OnInterrupt(int) { interrupted = true; }

// What a handler may wake others with.
sem_t termination;

void OnTermination(int signal) {
  if (interrupted.exchange(true)) ::_exit(128 + signal);
  ::sem_post(&termination);
}

}  // namespace

void CatchInterrupts() {
  struct sigaction action{};
  action.sa_handler = OnInterrupt;
  // No SA_RESTART: a read from the terminal returns, so that the prompt can react.
  ::sigaction(SIGINT, &action, nullptr);
}

bool Interrupted() { return interrupted; }
void ClearInterrupt() { interrupted = false; }
void EndAtNextInterrupt() { std::signal(SIGINT, SIG_DFL); }

void CatchTermination() {
  ::sem_init(&termination, /*pshared=*/0, 0);
  struct sigaction action{};
  action.sa_handler = OnTermination;
  // Unlike a prompt, a server has no call that a signal should break off.
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGHUP, SIG_IGN);
}

void WaitForInterrupt() {
  while (!Interrupted()) ::sem_wait(&termination);
}

}  // namespace quire
