#include "base/result.h"

#include <cstdio>
#include <cstdlib>

namespace quire {

int ExitCodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return 2;
    case ErrorCode::kNotFound:
    case ErrorCode::kCorrupt:
    case ErrorCode::kUnsupported:
      return 3;
    case ErrorCode::kResourceExhausted:
    case ErrorCode::kContextLength:
      return 4;
    case ErrorCode::kNumeric:
    case ErrorCode::kIo:
      return 5;
    case ErrorCode::kInterrupted:
      return 130;
  }
  return 5;
}

void CheckFailed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s%s%s\n", file, line, condition,
               message.empty() ? "" : ": ", message.c_str());
  std::abort();
}

}  // namespace quire
