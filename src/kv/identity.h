// Names of blocks by content: who computed what, chained from the root.
//
//   fingerprint = SHA-256 of everything that keys and values depend on beside the token ids
//   root        = SHA-256(fingerprint | tenant salt | adapter)
//   id(block)   = SHA-256(id(parent) | token ids)
//
// so an identity names a whole prefix: equal identities are equal prefixes of the same model for
// the same tenant. Every field goes in with its length or name, so that no two inputs read alike.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/sha256.h"

namespace quire {

// What keys and values depend on, apart from the tokens and their positions.
struct FingerprintInput {
  Digest weights{};          // of the logical tensors (models/pack.h)
  Digest architecture{};     // of the model's constants, rope included (models/config.h)
  Digest layout{};           // KvLayout::LayoutDigest(), the KV type included
  int numerics_version = 0;  // docs/numerics.md
};

Digest FingerprintOf(const FingerprintInput& input);

// salt: prefixes are shared only among requests of the same salt; empty = the one tenant.
Digest RootOf(const Digest& fingerprint, std::string_view salt, std::string_view adapter = {});

// tokens: 1 to kBlockSlots ids, the block's.
Digest ChildOf(const Digest& parent, std::span<const int32_t> tokens);

// The identities of a sequence's whole blocks, computed once each as it grows.
class IdentityChain {
 public:
  explicit IdentityChain(const Digest& root) : root_(root) {}

  // Makes ids for all whole blocks of `tokens`, which begin with those of the last call.
  void Extend(std::span<const int32_t> tokens);
  // Forgets the ids from block `num_blocks` on: other tokens may follow.
  void Truncate(size_t num_blocks);

  const Digest& root() const { return root_; }
  std::span<const Digest> ids() const { return ids_; }
  // Of the block before block `idx`: the root for the first.
  const Digest& parent(size_t idx) const { return idx == 0 ? root_ : ids_[idx - 1]; }

 private:
  Digest root_;
  std::vector<Digest> ids_;
};

}  // namespace quire
