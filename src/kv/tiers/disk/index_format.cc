#include "kv/tiers/disk/index_format.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "kv/tiers/record_codec.h"

namespace quire {
namespace {

// The first byte is no text's, the last is changed by whatever thinks that it is one.
constexpr std::array<uint8_t, 8> kMagic = {0x89, 'Q', 'K', 'V', 'I', 'D', 'X', '\n'};
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderChecksumOffset = 504;
constexpr size_t kEntryChecksumOffset = 120;

class Writer {
 public:
  explicit Writer(std::span<std::byte> bytes) : bytes_(bytes) {
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
  }
  template <typename T>
  Writer& Put(const T& value) {
    QUIRE_CHECK(position_ + sizeof(T) <= bytes_.size(), "{} bytes", bytes_.size());
    std::memcpy(bytes_.data() + position_, &value, sizeof(T));
    position_ += sizeof(T);
    return *this;
  }

 private:
  std::span<std::byte> bytes_;
  size_t position_ = 0;
};

template <typename T>
T Get(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

uint64_t HeaderChecksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), kHeaderChecksumOffset);
}

uint64_t EntryChecksum(std::span<const std::byte> bytes, const Digest& fingerprint, int64_t slot) {
  uint64_t seed = 0;
  std::memcpy(&seed, fingerprint.data(), sizeof(seed));
  seed ^= static_cast<uint64_t>(slot) * 0x9E3779B97F4A7C15u;
  return XXH3_64bits_withSeed(bytes.data(), kEntryChecksumOffset, seed);
}

}  // namespace

uint64_t SlotBytesFor(uint64_t max_record_bytes) {
  return AlignUp(std::max<uint64_t>(max_record_bytes, 1), kSlotAlignment);
}

void EncodeIndexHeader(const IndexHeader& header, std::span<std::byte, kIndexHeaderBytes> bytes) {
  Writer(bytes)
      .Put(kMagic)
      .Put(kVersion)
      .Put(static_cast<uint32_t>(header.type))
      .Put(header.fingerprint)
      .Put(header.ingredients.weights)
      .Put(header.ingredients.architecture)
      .Put(header.ingredients.layout)
      .Put(static_cast<int32_t>(header.ingredients.numerics_version))
      .Put(static_cast<uint32_t>(kIndexEntryBytes))
      .Put(header.slot_bytes);
  const uint64_t checksum = HeaderChecksum(bytes);
  std::memcpy(bytes.data() + kHeaderChecksumOffset, &checksum, sizeof(checksum));
}

std::optional<IndexHeader> DecodeIndexHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < kIndexHeaderBytes) return std::nullopt;
  if (Get<std::array<uint8_t, 8>>(bytes, 0) != kMagic) return std::nullopt;
  if (Get<uint64_t>(bytes, kHeaderChecksumOffset) != HeaderChecksum(bytes)) return std::nullopt;
  const auto type = Get<uint32_t>(bytes, 12);
  IndexHeader header = {.fingerprint = Get<Digest>(bytes, 16),
                        .ingredients = {.weights = Get<Digest>(bytes, 48),
                                        .architecture = Get<Digest>(bytes, 80),
                                        .layout = Get<Digest>(bytes, 112),
                                        .numerics_version = Get<int32_t>(bytes, 144)},
                        .type = static_cast<KvType>(type),
                        .slot_bytes = Get<uint64_t>(bytes, 152)};
  const bool is_readable = Get<uint32_t>(bytes, 8) == kVersion && type < kKvTypes.size() &&
                           Get<uint32_t>(bytes, 148) == kIndexEntryBytes;
  const bool has_slots = header.slot_bytes >= kRecordHeaderBytes &&
                         header.slot_bytes <= kMaxSlotBytes &&
                         header.slot_bytes % kSlotAlignment == 0;
  if (!is_readable || !has_slots) return std::nullopt;
  if (FingerprintOf(header.ingredients) != header.fingerprint) return std::nullopt;
  return header;
}

void EncodeIndexEntry(const IndexEntry& entry, const Digest& fingerprint, int64_t slot,
                      std::span<std::byte, kIndexEntryBytes> bytes) {
  Writer(bytes)
      .Put(entry.name)
      .Put(entry.parent)
      .Put(entry.tenant)
      .Put(static_cast<uint32_t>(entry.group))
      .Put(static_cast<uint32_t>(entry.entry))
      .Put(entry.last_use_s)
      .Put(entry.hits)
      .Put(entry.record_bytes);
  const uint64_t checksum = EntryChecksum(bytes, fingerprint, slot);
  std::memcpy(bytes.data() + kEntryChecksumOffset, &checksum, sizeof(checksum));
}

EntryState DecodeIndexEntry(std::span<const std::byte, kIndexEntryBytes> bytes,
                            const Digest& fingerprint, int64_t slot, IndexEntry* entry) {
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (std::all_of(bytes.begin(), bytes.end(), is_zero)) return EntryState::kFree;
  if (Get<uint64_t>(bytes, kEntryChecksumOffset) != EntryChecksum(bytes, fingerprint, slot)) {
    return EntryState::kDamaged;
  }
  const auto group = Get<uint32_t>(bytes, 80);
  const auto position = Get<uint32_t>(bytes, 84);
  *entry = {.name = Get<RecordName>(bytes, 0),
            .parent = Get<RecordName>(bytes, 32),
            .tenant = Get<TenantTag>(bytes, 64),
            .group = static_cast<int>(group),
            .entry = static_cast<int>(position),
            .last_use_s = Get<double>(bytes, 88),
            .hits = Get<uint32_t>(bytes, 96),
            .record_bytes = Get<uint32_t>(bytes, 100)};
  const bool is_sane = group < (1u << 16) && position < (1u << 30) &&
                       std::isfinite(entry->last_use_s) && entry->last_use_s >= 0 &&
                       entry->record_bytes >= kRecordHeaderBytes &&
                       entry->record_bytes <= kMaxSlotBytes;
  return is_sane ? EntryState::kListed : EntryState::kDamaged;
}

}  // namespace quire
