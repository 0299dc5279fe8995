// Blocks as bytes that describe and prove themselves (docs/kv-format.md), and back.
//
//   record = header [kRecordHeaderBytes] | body
//
// The header names the model and the block and holds a checksum over everything, and with a key a
// MAC over everything. The body is the payload, packed by zstd or not, encrypted or not; with
// encryption, parent and token ids are part of what is hidden. Without zstd the body has exactly
// the payload's length, so that it can be read straight to where it belongs.
//
// A block is taken only where everything fits what was asked for: the fingerprint, type and layout,
// the block's root, parent, group, position and token ids, the length, the checksum, and the seal
// where one is demanded. Anything else is a named fault and never a block.
// Const after creation: any number of threads.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/tiers/key_ring.h"
#include "kv/tiers/record.h"

namespace quire {

inline constexpr size_t kRecordHeaderBytes = 512;
inline constexpr uint32_t kRecordVersion = 1;
// No record is longer: what may be read into memory before anything of it is known.
inline constexpr size_t kMaxRecordBytes = size_t{64} << 20;

// Groups of layers that a model has at most where its blocks are stored.
inline constexpr int kMaxStoredGroups = 1024;

enum class Packing : uint8_t { kNone, kZstd };

// Whether a record without a MAC is taken: from a place that only its owner may write, or because
// somebody said so.
enum class SealDemand : uint8_t { kNone, kDemanded };

// What a header says of its record, before anything is proven.
struct RecordHead {
  Digest fingerprint{};
  FingerprintInput ingredients{};
  KvType type = KvType::kF16;
  RecordName name{};
  TenantTag tenant{};
  int group = 0;
  int entry = 0;
  bool is_packed = false;
  bool is_sealed = false;  // has a MAC or is encrypted
  bool is_encrypted = false;
  KeyId key{};  // sealed
  uint64_t payload_bytes = 0;
  uint64_t body_bytes = 0;
};

class RecordCodec {
 public:
  // Whether the blocks of all groups fit into records.
  static Status CanStore(const StoredModel& model);

  // keys: null = records are not sealed. encrypts needs keys. model: one that CanStore takes.
  RecordCodec(StoredModel model, std::shared_ptr<const KeyRing> keys, bool encrypts);

  const StoredModel& model() const { return model_; }
  bool has_key() const { return keys_ != nullptr; }
  bool encrypts() const { return encrypts_; }

  RecordName NameOf(const BlockKey& key) const;
  TenantTag TagOf(const Digest& root) const;

  // Of a record without zstd, of the largest group; no record that Encode makes is longer.
  size_t MaxRecordBytes() const;

  // The block's record: `header`, and the body that is returned. That is the payload itself, which
  // is not copied, or else what `made` then holds. payload: [group_bytes of its group].
  std::span<const std::byte> Encode(const StoredBlock& block, std::span<const std::byte> payload,
                                    Packing packing,
                                    std::span<std::byte, kRecordHeaderBytes> header,
                                    std::vector<std::byte>& made) const;
  // The same in one piece.
  void Encode(const StoredBlock& block, std::span<const std::byte> payload, Packing packing,
              std::vector<std::byte>& record) const;

  // Proves that the record is the block's and fills `payload` [group_bytes of its group]. `body` is
  // all that follows the header; it may be the payload's own memory (a packed record is then
  // refused: kBadPayload), and decryption changes it. After a fault the payload is worth nothing.
  RecordFault Decode(std::span<const std::byte, kRecordHeaderBytes> header,
                     std::span<std::byte> body, const StoredBlock& wanted, SealDemand demand,
                     std::span<std::byte> payload) const;

 private:
  StoredModel model_;
  std::shared_ptr<const KeyRing> keys_;
  bool encrypts_;
};

// What the header of any model's record says. kTruncated, kForeign, kVersion, or kChecksum where
// its lengths are absurd; proves nothing.
RecordFault ReadHead(std::span<const std::byte> header, RecordHead* head);

// Proves a whole record of any model by its checksum and, with keys, its seal; null keys: the
// checksum alone. Not whether a packed body unpacks.
RecordFault VerifyRecord(std::span<const std::byte> record, const KeyRing* keys, SealDemand demand);

// Opens a whole record of any model: what its block is (id is made from parent and tokens), proven
// as by VerifyRecord. kUnknownKey where it is encrypted and the key is not there.
RecordFault OpenRecord(std::span<const std::byte> record, const KeyRing* keys, SealDemand demand,
                       StoredBlock* block, std::vector<std::byte>* payload);

}  // namespace quire
