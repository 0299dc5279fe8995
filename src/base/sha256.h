// SHA-256 (FIPS 180-4), by OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace quire {

using Digest = std::array<uint8_t, 32>;

// Sha256().Add(a).Add(b).Finish() == the digest of a followed by b.
class Sha256 {
 public:
  Sha256();
  Sha256& Add(std::span<const std::byte> bytes);
  Sha256& Add(std::string_view text);
  // Eight bytes, little-endian.
  Sha256& Add(uint64_t value);
  Sha256& Add(const Digest& digest);
  Digest Finish();

 private:
  struct ContextDeleter {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, ContextDeleter> context_;
};

// 64 lower-case hexadecimal digits.
std::string ToHex(const Digest& digest);

}  // namespace quire
