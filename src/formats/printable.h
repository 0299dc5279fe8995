// Text out of untrusted files, made fit for terminals, logs and JSON. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

// One line of valid UTF-8 without characters that drive a terminal or reorder its text: control
// characters become \n, \r, \t or \u{1b}; a byte that is not part of a character becomes \xff;
// a backslash becomes \\. Cut after max_bytes input bytes, at a character, with "..." appended.
std::string Printable(std::string_view bytes, size_t max_bytes = 200);

}  // namespace quire
