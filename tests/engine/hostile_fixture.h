// Runs of code that must survive bad input: in a child process under limits, so that a crash, a
// hang or a flood of memory is a failure with the input's description and not the end of the tests.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "support/sanitizers.h"

namespace quire::testing {

struct ChildLimits {
  rlim_t address_space_bytes = RLIM_INFINITY;  // not with sanitizers, whose shadow takes terabytes
  unsigned seconds = 60;
};

struct ChildOutcome {
  bool survived = false;
  std::string said;  // what the child handed to `say`, the last time
  long peak_kib = 0;
  int status = 0;
};

// Runs body(say) in a child.
template <typename Body>
ChildOutcome InChild(const ChildLimits& limits, const Body& body) {
  int ends[2];
  ChildOutcome outcome;
  if (::pipe(ends) != 0) return outcome;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
#ifndef QUIRE_SHADOW_MEMORY
    const rlimit limit{.rlim_cur = limits.address_space_bytes,
                       .rlim_max = limits.address_space_bytes};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(3);
#endif
    ::alarm(limits.seconds);
    body([&](const std::string& text) {
      const std::string record = text + '\0';
      if (::write(ends[1], record.data(), record.size()) < 0) ::_exit(4);
    });
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string all;
  char buffer[4096];
  ssize_t count = 0;
  while ((count = ::read(ends[0], buffer, sizeof(buffer))) > 0) all.append(buffer, count);
  ::close(ends[0]);
  rusage usage{};
  ::wait4(child, &outcome.status, 0, &usage);
  outcome.survived = WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == 0;
  outcome.peak_kib = usage.ru_maxrss;
  if (!all.empty()) {
    all.pop_back();
    const size_t start = all.rfind('\0');
    outcome.said = start == std::string::npos ? all : all.substr(start + 1);
  }
  return outcome;
}

}  // namespace quire::testing
