// Runs another program to its end, without a shell.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace quire {

struct SubprocessOutcome {
  int exit_status = 0;  // 128 + the signal's number where a signal ended it
  std::string output;   // the end of its standard output and error, at most kMaxOutputBytes
};

struct Subprocess {
  static constexpr size_t kMaxOutputBytes = 16 * 1024;

  std::vector<std::string> arguments;  // the program first, looked up in PATH
  std::vector<std::pair<std::string, std::string>> environment;  // set on top of our own
  std::function<void()> on_tick;  // called about five times a second; may be empty

  // kNotFound where there is no such program, kIo where the system refuses. Standard input is
  // empty.
  Result<SubprocessOutcome> Run() const;
};

}  // namespace quire
