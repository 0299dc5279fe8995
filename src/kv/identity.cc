#include "kv/identity.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tensor/paged_kv_view.h"

namespace quire {
namespace {

// Each kind of digest begins with a tag of its own, so that none can be passed off as another.
constexpr std::string_view kFingerprintTag = "quire kv fingerprint 1";
constexpr std::string_view kRootTag = "quire kv root 1";
constexpr std::string_view kBlockTag = "quire kv blk 1";

}  // namespace

Digest FingerprintOf(const FingerprintInput& input) {
  return Sha256()
      .Add(kFingerprintTag)
      .Add(input.weights)
      .Add(input.architecture)
      .Add(input.layout)
      .Add(static_cast<uint64_t>(input.numerics_version))
      .Finish();
}

Digest RootOf(const Digest& fingerprint, std::string_view salt, std::string_view adapter) {
  return Sha256()
      .Add(kRootTag)
      .Add(fingerprint)
      .Add(static_cast<uint64_t>(salt.size()))
      .Add(salt)
      .Add(static_cast<uint64_t>(adapter.size()))
      .Add(adapter)
      .Finish();
}

Digest ChildOf(const Digest& parent, std::span<const int32_t> tokens) {
  QUIRE_CHECK(!tokens.empty() && tokens.size() <= kBlockSlots, "a block of {} tokens",
              tokens.size());
  // In one piece: this is the hash that every prompt pays for, once a block. With 16 tokens it
  // takes two rounds of SHA-256.
  std::array<std::byte, kBlockTag.size() + sizeof(Digest) + 1 + kBlockSlots * sizeof(int32_t)> text;
  std::byte* end = text.data();
  const auto append = [&end](const void* bytes, size_t size) {
    std::memcpy(end, bytes, size);
    end += size;
  };
  const auto num_tokens = static_cast<uint8_t>(tokens.size());
  append(kBlockTag.data(), kBlockTag.size());
  append(parent.data(), parent.size());
  append(&num_tokens, 1);
  append(tokens.data(), tokens.size_bytes());
  return Sha256().Add(std::span<const std::byte>(text.data(), end)).Finish();
}

void IdentityChain::Extend(std::span<const int32_t> tokens) {
  const size_t num_blocks = tokens.size() / kBlockSlots;
  while (ids_.size() < num_blocks) {
    const size_t idx = ids_.size();
    ids_.push_back(ChildOf(parent(idx), tokens.subspan(idx * kBlockSlots, kBlockSlots)));
  }
}

void IdentityChain::Truncate(size_t num_blocks) {
  if (num_blocks < ids_.size()) ids_.resize(num_blocks);
}

}  // namespace quire
