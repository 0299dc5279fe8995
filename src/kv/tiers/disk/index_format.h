// The bytes of an index file (docs/kv-directory.md): a header, then one entry a slot. Nothing read
// from a file is believed before its checksum fits; an entry's checksum knows its slot and its
// model, so that no entry counts for another's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kv/tiers/record.h"

namespace quire {

inline constexpr size_t kIndexHeaderBytes = 4096;
inline constexpr size_t kIndexEntryBytes = 128;
// Changes with each change of an entry, so that a reader knows when to look again. Not under the
// header's checksum: it is written by itself.
inline constexpr size_t kIndexGenerationOffset = 512;
inline constexpr uint64_t kSlotAlignment = 4096;
inline constexpr uint64_t kMaxSlotBytes = uint64_t{256} << 20;
inline constexpr int64_t kMaxSlots = int64_t{1} << 26;

// Of a slab whose longest record has so many bytes.
uint64_t SlotBytesFor(uint64_t max_record_bytes);

struct IndexHeader {
  Digest fingerprint{};  // FingerprintOf(ingredients)
  FingerprintInput ingredients{};
  KvType type = KvType::kF16;
  uint64_t slot_bytes = 0;
};

struct IndexEntry {
  RecordName name{};
  RecordName parent{};  // all zero where it is not known
  TenantTag tenant{};
  int group = 0;
  int entry = 0;
  double last_use_s = 0;  // Unix time
  uint32_t hits = 0;      // uses after the first
  uint32_t record_bytes = 0;
};

enum class EntryState : uint8_t { kFree, kListed, kDamaged };

void EncodeIndexHeader(const IndexHeader& header, std::span<std::byte, kIndexHeaderBytes> bytes);
// Nothing where it is not a header of ours, of this version, and unharmed.
std::optional<IndexHeader> DecodeIndexHeader(std::span<const std::byte> bytes);

void EncodeIndexEntry(const IndexEntry& entry, const Digest& fingerprint, int64_t slot,
                      std::span<std::byte, kIndexEntryBytes> bytes);
EntryState DecodeIndexEntry(std::span<const std::byte, kIndexEntryBytes> bytes,
                            const Digest& fingerprint, int64_t slot, IndexEntry* entry);

}  // namespace quire
