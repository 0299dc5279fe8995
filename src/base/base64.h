// Base64 (RFC 4648, section 4), with padding.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace quire {

std::string Base64(std::span<const uint8_t> bytes);

}  // namespace quire
