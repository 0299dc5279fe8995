#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "cli/verbs.h"

namespace quire {

int Report(const Status& status) {
  if (status.ok()) return 0;
  std::fflush(stdout);
  const std::string line = fmt::format("quire: {}\n", status.error().message);
  std::fputs(line.c_str(), stderr);
  return ExitCodeOf(status.error().code);
}

int FlushStdout() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  return errno == 0 ? -1 : errno;
}

Error OutputError(int error) {
  std::string what = error > 0 ? std::strerror(error) : "not all of it could be written";
  if (error == EPIPE) what = "nobody reads it";
  return MakeError(ErrorCode::kIo, "standard output: {}", what);
}

Status FlushOutput() {
  const int error = FlushStdout();
  if (error != 0) return OutputError(error);
  return {};
}

}  // namespace quire
