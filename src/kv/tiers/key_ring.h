// The secrets that records are sealed with: a file of keys, and the subkeys made from them.
//
// Each line of the file is a key: 64 hexadecimal digits; '#' begins a comment. The first key seals
// and names; further ones, older, still open what they have sealed. Subkeys for MACs, encryption
// and names are made by HKDF-SHA256 (RFC 5869), so that none of them tells another. A key's id is
// made likewise and is no secret.
// Const after creation: any number of threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"

namespace quire {

using KeyId = std::array<uint8_t, 8>;

class KeyRing {
 public:
  static constexpr int kMaxKeys = 16;
  static constexpr size_t kNonceBytes = 12;
  static constexpr size_t kTagBytes = 16;

  // Fails, naming the line, for anything else; kInvalidArgument where others than the owner may
  // read the file.
  static Result<std::shared_ptr<const KeyRing>> FromFile(const std::filesystem::path& path);
  // keys: 32 bytes each, 1 to kMaxKeys, no two alike.
  static Result<std::shared_ptr<const KeyRing>> Make(std::span<const std::array<uint8_t, 32>> keys);
  // Overwrites the keys.
  ~KeyRing();
  KeyRing(const KeyRing&) = delete;
  KeyRing& operator=(const KeyRing&) = delete;

  // The key that seals.
  const KeyId& id() const { return keys_[0].id; }
  bool Knows(const KeyId& id) const { return Find(id) != nullptr; }

  // HMAC-SHA256 (RFC 2104) over the parts in order. id: one that it knows.
  Digest Mac(const KeyId& id, std::span<const std::span<const std::byte>> parts) const;
  // HMAC-SHA256 with the naming subkey: `purpose` parts kinds of names. id: one that it knows.
  Digest Name(const KeyId& id, std::string_view purpose, std::span<const std::byte> text) const;

  // AES-256-GCM (NIST SP 800-38D) with the first key; `text`, one text in parts of less than 2 GiB,
  // is changed in place. `clear` is proven, not hidden. A nonce is never used twice.
  void Encrypt(std::span<const uint8_t, kNonceBytes> nonce, std::span<const std::byte> clear,
               std::span<const std::span<std::byte>> text, std::span<uint8_t, kTagBytes> tag) const;
  // False, and `text` is worth nothing, where the tag does not fit. id: one that it knows.
  bool Decrypt(const KeyId& id, std::span<const uint8_t, kNonceBytes> nonce,
               std::span<const std::byte> clear, std::span<const std::span<std::byte>> text,
               std::span<const uint8_t, kTagBytes> tag) const;
  // Different each time, from the system's generator.
  static std::array<uint8_t, kNonceBytes> RandomNonce();

  // Whether two digests are equal, in a time that does not depend on where they differ.
  static bool Equal(std::span<const uint8_t> a, std::span<const uint8_t> b);

 private:
  struct Key {
    KeyId id{};
    std::array<uint8_t, 32> mac{};
    std::array<uint8_t, 32> encryption{};
    std::array<uint8_t, 32> names{};
  };
  KeyRing() = default;
  const Key* Find(const KeyId& id) const;
  const Key& Get(const KeyId& id) const;

  std::vector<Key> keys_;
};

}  // namespace quire
