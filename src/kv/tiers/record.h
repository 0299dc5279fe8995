// A stored block: what a tier keeps, and what can be wrong with it. Plain data.
//
// Only whole blocks are stored. A block is stored for each group of layers by itself, under the
// block's identity and the group.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kv/identity.h"
#include "tensor/kv_type.h"
#include "tensor/paged_kv_view.h"

namespace quire {

// The model that stored blocks belong to: the same for all blocks of an engine.
struct StoredModel {
  Digest fingerprint{};            // FingerprintOf(ingredients)
  FingerprintInput ingredients{};  // tell why another model's blocks are of no use
  KvType type = KvType::kF16;
  std::vector<size_t> group_bytes{};  // [num_groups] of a block's payload, without padding
};

// Where a block is found.
struct BlockKey {
  Digest id{};    // ChildOf(parent, tokens)
  int group = 0;  // of layers

  friend bool operator==(const BlockKey&, const BlockKey&) = default;
};

// All that is known of a block beside its payload.
struct StoredBlock {
  Digest id{};
  Digest parent{};  // identity of the block before it; the root for the first
  Digest root{};    // RootOf(fingerprint, salt): whose it is
  int group = 0;
  int entry = 0;  // of its sequence's table: the first token's position / kBlockSlots
  std::array<int32_t, kBlockSlots> tokens{};

  BlockKey key() const { return {.id = id, .group = group}; }
};

// What stores call a record: (identity, group), hashed, and keyed where there is a key, so that
// whoever sees names cannot try out prompts.
struct RecordName {
  Digest digest{};

  friend bool operator==(const RecordName&, const RecordName&) = default;
  friend auto operator<=>(const RecordName&, const RecordName&) = default;
};

// Whose a record is, for quotas: of the root, hashed (and keyed) likewise.
using TenantTag = std::array<uint8_t, 16>;

// Why a record was of no use. Every one of them is a miss; all but the first three are counted as
// faults. The numbers are not stored.
enum class RecordFault : uint8_t {
  kNone,
  kAbsent,      // there is none
  kCancelled,   // nobody wants it any more
  kTruncated,   // shorter than it says
  kForeign,     // not a record
  kVersion,     // of a format version that is not read
  kChecksum,    // bytes have changed
  kOtherModel,  // another fingerprint, KV type or layout
  kOtherBlock,  // another parent, root, group, position or other tokens than those asked for
  kUnsealed,    // no MAC where one is demanded
  kUnknownKey,  // sealed with a key that is not there
  kForged,      // the MAC does not fit
  kBadPayload,  // does not unpack to the bytes that a block has
  kIo,          // the system or the server failed
  kTimeout,     // not there in time
  kDown,        // the tier is not asked for the present
};
inline constexpr int kNumRecordFaults = 16;
// "none", "absent", "cancelled", "truncated", "foreign", "version", "checksum", "other_model",
// "other_block", "unsealed", "unknown_key", "forged", "bad_payload", "io", "timeout", "down"
std::string_view NameOf(RecordFault fault);

}  // namespace quire
