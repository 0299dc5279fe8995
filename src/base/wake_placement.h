// Where threads that sleep are to wake: anywhere but on the processor of the thread that wakes
// them.
//
// Linux does not wake a thread on an idle processor of a virtual machine while that processor's
// halt looks like the host having taken it away (vcpu_is_preempted in kernel/sched/fair.c). A
// worker then wakes where its waker runs and spins, and waits there for the next balancing: 10 to
// 15 ms that a first step after a pause took longer. Elsewhere this does nothing.
#pragma once

#include <sched.h>

#include <span>
#include <thread>

namespace quire {

class WakePlacement {
 public:
  // On a virtual machine, as the processor tells.
  static bool IsNeeded();

  // By the waker: keeps the sleepers off its processor. False where they are to be left alone: it
  // may use a single processor.
  bool KeepOff(std::span<std::thread> sleepers);
  // By each that was kept off, once awake: it may run wherever its waker may.
  void Settle() const;

 private:
  cpu_set_t allowed_{};  // to the waker
};

}  // namespace quire
