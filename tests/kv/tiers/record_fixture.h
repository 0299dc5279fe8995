// The block of tests/golden/kv (tests/oracles/kv_records.py), and records made ready to be spoilt.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "kv/tiers/key_ring.h"
#include "kv/tiers/record_codec.h"
#include "kv/tiers/record_layout.h"
#include "support/scratch_directory.h"

namespace quire {

using Bytes = std::vector<std::byte>;
using Secret = std::array<uint8_t, 32>;

inline Secret SecretFrom(uint8_t first) {
  Secret secret;
  std::iota(secret.begin(), secret.end(), first);
  return secret;
}

inline std::shared_ptr<const KeyRing> RingOf(std::vector<Secret> secrets) {
  return KeyRing::Make(secrets).value();
}
inline std::shared_ptr<const KeyRing> GoldenRing() { return RingOf({SecretFrom(0)}); }

// Groups of 256 and 2,048 bytes.
inline StoredModel GoldenModel() {
  StoredModel model;
  model.ingredients.weights.fill(0x11);
  model.ingredients.architecture.fill(0x22);
  model.ingredients.layout.fill(0x33);
  model.ingredients.numerics_version = 7;
  model.fingerprint = FingerprintOf(model.ingredients);
  model.group_bytes = {256, 2048};
  return model;
}

inline std::array<int32_t, kBlockSlots> TokensFrom(int32_t first) {
  std::array<int32_t, kBlockSlots> tokens;
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// The second block of a prompt.
inline StoredBlock GoldenBlock(int group = 1) {
  StoredBlock block;
  block.root = RootOf(GoldenModel().fingerprint, "golden");
  block.parent = ChildOf(block.root, TokensFrom(1));
  block.group = group;
  block.entry = 1;
  block.tokens = TokensFrom(100);
  block.tokens.back() = 2147483647;
  block.id = ChildOf(block.parent, block.tokens);
  return block;
}

// Of GoldenBlock(); zstd packs it.
inline Bytes GoldenPayload(size_t size = 2048) {
  Bytes payload(size);
  for (size_t i = 0; i < size; ++i) payload[i] = static_cast<std::byte>(i * 7 % 61);
  return payload;
}

inline Bytes ReadGolden(const std::string& name) {
  const std::string text = ReadFile(std::string(QUIRE_TESTS_DIR) + "/golden/kv/" + name);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// How records are made.
struct Making {
  std::string name{};
  bool has_key = false;
  bool encrypts = false;
  Packing packing = Packing::kNone;
};
inline const std::vector<Making>& AllMakings() {
  static const std::vector<Making> makings = {
      {.name = "plain"},
      {.name = "zstd", .packing = Packing::kZstd},
      {.name = "mac", .has_key = true},
      {.name = "mac zstd", .has_key = true, .packing = Packing::kZstd},
      {.name = "encrypted", .has_key = true, .encrypts = true},
      {.name = "encrypted zstd", .has_key = true, .encrypts = true, .packing = Packing::kZstd}};
  return makings;
}

inline RecordCodec CodecOf(const Making& making) {
  return {GoldenModel(), making.has_key ? GoldenRing() : nullptr, making.encrypts};
}

inline Bytes Encoded(const Making& making, const StoredBlock& block = GoldenBlock(0)) {
  const RecordCodec codec = CodecOf(making);
  Bytes record;
  codec.Encode(block, GoldenPayload(codec.model().group_bytes[block.group]), making.packing,
               record);
  return record;
}

// Decodes a copy of a whole record.
struct Decoded {
  RecordFault fault = RecordFault::kNone;
  Bytes payload{};
};
inline Decoded Decode(const RecordCodec& codec, Bytes record,
                      const StoredBlock& wanted = GoldenBlock(0),
                      SealDemand demand = SealDemand::kNone) {
  Decoded decoded;
  decoded.payload.resize(codec.model().group_bytes[wanted.group]);
  const std::span<std::byte> bytes(record);
  decoded.fault = codec.Decode(bytes.first<kRecordHeaderBytes>(), bytes.subspan(kRecordHeaderBytes),
                               wanted, demand, decoded.payload);
  return decoded;
}

// What somebody without the key can do after changing a record.
inline void MendChecksum(Bytes& record) {
  const std::span<std::byte> bytes(record);
  HeaderBytes header;
  std::copy_n(record.begin(), header.size(), header.begin());
  WriteChecksum(header, ChecksumOf(header, bytes.subspan(kRecordHeaderBytes)));
  std::copy(header.begin(), header.end(), record.begin());
}

inline Bytes Flipped(Bytes record, size_t byte, int bit = 0) {
  record[byte] ^= static_cast<std::byte>(1 << bit);
  return record;
}

}  // namespace quire
