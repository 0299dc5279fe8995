// What a file that should be GGUF is, told from its first bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"

namespace quire {

// Success when the bytes start as a little-endian GGUF file of a version that Quire reads; else an
// error that says what they look like (an older format, big-endian, a web page, a Git LFS pointer).
Status CheckGgufSignature(std::string_view file, std::span<const std::byte> bytes);

}  // namespace quire
