#include <fmt/core.h>

#include "cli/verbs.h"

namespace quire {

int Report(const Status& status) {
  if (status.ok()) return 0;
  fmt::print(stderr, "quire: {}\n", status.error().message);
  return ExitCodeOf(status.error().code);
}

}  // namespace quire
