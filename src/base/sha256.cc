#include "base/sha256.h"

#include <openssl/evp.h>

#include <cstring>

#include "base/check.h"

namespace quire {

void Sha256::ContextDeleter::operator()(void* context) const {
  EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context));
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  QUIRE_CHECK(context_ != nullptr, "no memory for a digest");
  QUIRE_CHECK(EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_.get()), EVP_sha256(), nullptr) ==
              1);
}

Sha256& Sha256::Add(std::span<const std::byte> bytes) {
  QUIRE_CHECK(
      EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_.get()), bytes.data(), bytes.size()) == 1);
  return *this;
}

Sha256& Sha256::Add(std::string_view text) { return Add(std::as_bytes(std::span(text))); }

Sha256& Sha256::Add(uint64_t value) {
  std::array<std::byte, 8> bytes;
  std::memcpy(bytes.data(), &value, sizeof(value));
  return Add(std::span<const std::byte>(bytes));
}

Sha256& Sha256::Add(const Digest& digest) { return Add(std::as_bytes(std::span(digest))); }

Digest Sha256::Finish() {
  Digest digest;
  unsigned size = 0;
  QUIRE_CHECK(EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_.get()), digest.data(), &size) ==
              1);
  QUIRE_CHECK(size == digest.size());
  return digest;
}

std::string ToHex(const Digest& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.size());
  for (const uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace quire
