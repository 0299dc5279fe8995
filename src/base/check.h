// Broken invariants end the process with a message. Input from outside never reaches a check.
#pragma once

#include <fmt/format.h>

#include <string>

namespace quire {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& message);

}  // namespace quire

// QUIRE_CHECK(slot < kBlockSlots, "slot {} of a block of {}", slot, kBlockSlots);
#define QUIRE_CHECK(condition, ...)                                                      \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      ::quire::CheckFailed(__FILE__, __LINE__, #condition, fmt::format("" __VA_ARGS__)); \
    }                                                                                    \
  } while (false)
