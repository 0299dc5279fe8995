// Text that a verb is given: on the command line, in a file or on standard input.
#pragma once

#include <string>

#include "base/result.h"

namespace quire {

// The whole file; "-" is standard input.
Result<std::string> ReadTextFile(const std::string& path);

}  // namespace quire
