// Where each field of a record's header lies (docs/kv-format.md), and the proofs over it.
//
//   [0, 384)   clear: the format, lengths, proofs, the model, name and tenant tag
//   [384, 512) hidden where the record is encrypted: root, parent, token ids
//
// All numbers are little-endian, as the machines are that Quire runs on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kv/tiers/record_codec.h"

namespace quire {

inline constexpr size_t kHiddenOffset = 384;
inline constexpr size_t kHiddenBytes = kRecordHeaderBytes - kHiddenOffset;
// What a payload and a body hold at most.
inline constexpr size_t kMaxBodyBytes = kMaxRecordBytes - kRecordHeaderBytes;

using HeaderBytes = std::array<std::byte, kRecordHeaderBytes>;
using HeaderView = std::span<const std::byte, kRecordHeaderBytes>;
using Nonce = std::array<uint8_t, KeyRing::kNonceBytes>;

struct Checksum128 {
  uint64_t low = 0;
  uint64_t high = 0;

  friend bool operator==(const Checksum128&, const Checksum128&) = default;
};

// What encryption hides of a header.
struct HiddenHead {
  Digest root{};
  Digest parent{};
  std::array<int32_t, kBlockSlots> tokens{};
};
static_assert(sizeof(HiddenHead) == kHiddenBytes);

// A header without proofs: checksum and seal are zero. It is encrypted or sealed later.
HeaderBytes MakeHeader(const RecordHead& head, const HiddenHead& hidden);

inline HiddenHead ReadHidden(std::span<const std::byte, kHiddenBytes> bytes) {
  HiddenHead hidden;
  std::memcpy(&hidden, bytes.data(), kHiddenBytes);
  return hidden;
}

Nonce ReadNonce(HeaderView header);
void WriteNonce(HeaderBytes& header, const Nonce& nonce);

// MAC [32], or the tag [16] of encryption and zeros.
Digest ReadSeal(HeaderView header);
void WriteSeal(HeaderBytes& header, std::span<const uint8_t> seal);

Checksum128 ReadChecksum(HeaderView header);
void WriteChecksum(HeaderBytes& header, const Checksum128& checksum);

// XXH3-128 over the header, its checksum taken as zero, and the body.
Checksum128 ChecksumOf(HeaderView header, std::span<const std::byte> body);

// The header as the seal sees it: checksum and seal are zero.
HeaderBytes WithoutProofs(HeaderView header);

// Whether all bytes that have no meaning, of a header as ReadHead took it, are zero.
bool UnusedBytesAreZero(HeaderView header);

}  // namespace quire
