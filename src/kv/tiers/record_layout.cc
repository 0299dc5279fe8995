#include "kv/tiers/record_layout.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <optional>

#include "base/check.h"

namespace quire {
namespace {

static_assert(std::endian::native == std::endian::little);

// No text file begins with it, and whatever rewrites line ends or the eighth bit breaks it.
constexpr std::array<uint8_t, 8> kMagic = {0x89, 'Q', 'K', 'V', '\r', '\n', 0x1a, '\n'};

enum Flag : uint32_t {
  kPacked = 1,     // the body is a zstd frame
  kHasMac = 2,     // sealed by a MAC
  kEncrypted = 4,  // sealed by encryption
};
constexpr uint32_t kKnownFlags = kPacked | kHasMac | kEncrypted;

// Offsets of the fields.
constexpr size_t kMagicAt = 0;
constexpr size_t kVersionAt = 8;
constexpr size_t kFlagsAt = 12;
constexpr size_t kTypeAt = 16;
constexpr size_t kGroupAt = 20;
constexpr size_t kEntryAt = 24;
constexpr size_t kNumSlotsAt = 28;
constexpr size_t kPayloadBytesAt = 32;
constexpr size_t kBodyBytesAt = 40;
constexpr size_t kChecksumAt = 48;
constexpr size_t kSealAt = 64;
constexpr size_t kKeyIdAt = 96;
constexpr size_t kNonceAt = 104;
constexpr size_t kNumericsAt = 116;
constexpr size_t kFirstUnusedAt = 120;
constexpr size_t kFingerprintAt = 128;
constexpr size_t kWeightsAt = 160;
constexpr size_t kArchitectureAt = 192;
constexpr size_t kLayoutAt = 224;
constexpr size_t kNameAt = 256;
constexpr size_t kTenantAt = 288;
constexpr size_t kSecondUnusedAt = 304;

template <typename T>
T Get(std::span<const std::byte> header, size_t offset) {
  T value;
  std::memcpy(&value, header.data() + offset, sizeof(T));
  return value;
}

template <typename T>
void Put(HeaderBytes& header, size_t offset, const T& value) {
  std::memcpy(header.data() + offset, &value, sizeof(T));
}

// KV types by the numbers of the format.
constexpr std::array kTypeNumbers = {KvType::kF16, KvType::kF32, KvType::kBF16, KvType::kQ8_0};

uint32_t NumberOf(KvType type) {
  const auto* found = std::find(kTypeNumbers.begin(), kTypeNumbers.end(), type);
  return static_cast<uint32_t>(found - kTypeNumbers.begin()) + 1;
}

std::optional<KvType> TypeOf(uint32_t number) {
  if (number < 1 || number > kTypeNumbers.size()) return std::nullopt;
  return kTypeNumbers[number - 1];
}

bool IsZero(HeaderView header, size_t begin, size_t end) {
  return std::all_of(header.begin() + begin, header.begin() + end,
                     [](std::byte value) { return value == std::byte{0}; });
}

struct StateDeleter {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

// Whether a record of these lengths can be.
bool LengthsAreSane(const RecordHead& head) {
  if (head.payload_bytes == 0 || head.payload_bytes > kMaxBodyBytes) return false;
  if (head.is_packed) return head.body_bytes > 0 && head.body_bytes < head.payload_bytes;
  return head.body_bytes == head.payload_bytes;
}

}  // namespace

HeaderBytes MakeHeader(const RecordHead& head, const HiddenHead& hidden) {
  HeaderBytes header{};
  const bool has_mac = head.is_sealed && !head.is_encrypted;
  Put(header, kMagicAt, kMagic);
  Put(header, kVersionAt, kRecordVersion);
  Put(header, kFlagsAt,
      (head.is_packed ? kPacked : 0u) | (has_mac ? kHasMac : 0u) |
          (head.is_encrypted ? kEncrypted : 0u));
  Put(header, kTypeAt, NumberOf(head.type));
  Put(header, kGroupAt, static_cast<uint32_t>(head.group));
  Put(header, kEntryAt, static_cast<uint32_t>(head.entry));
  Put(header, kNumSlotsAt, static_cast<uint32_t>(kBlockSlots));
  Put(header, kPayloadBytesAt, head.payload_bytes);
  Put(header, kBodyBytesAt, head.body_bytes);
  Put(header, kKeyIdAt, head.key);
  Put(header, kNumericsAt, static_cast<uint32_t>(head.ingredients.numerics_version));
  Put(header, kFingerprintAt, head.fingerprint);
  Put(header, kWeightsAt, head.ingredients.weights);
  Put(header, kArchitectureAt, head.ingredients.architecture);
  Put(header, kLayoutAt, head.ingredients.layout);
  Put(header, kNameAt, head.name.digest);
  Put(header, kTenantAt, head.tenant);
  Put(header, kHiddenOffset, hidden);
  return header;
}

RecordFault ReadHead(std::span<const std::byte> bytes, RecordHead* head) {
  *head = {};
  if (bytes.size() >= kMagic.size() && Get<std::array<uint8_t, 8>>(bytes, kMagicAt) != kMagic) {
    return RecordFault::kForeign;
  }
  if (bytes.size() < kRecordHeaderBytes) return RecordFault::kTruncated;
  if (Get<uint32_t>(bytes, kVersionAt) != kRecordVersion) return RecordFault::kVersion;
  const auto flags = Get<uint32_t>(bytes, kFlagsAt);
  const std::optional<KvType> type = TypeOf(Get<uint32_t>(bytes, kTypeAt));
  const bool is_sealed_twice = (flags & kHasMac) != 0 && (flags & kEncrypted) != 0;
  if ((flags & ~kKnownFlags) != 0 || is_sealed_twice || !type ||
      Get<uint32_t>(bytes, kNumSlotsAt) != kBlockSlots) {
    return RecordFault::kVersion;
  }
  const auto group = Get<uint32_t>(bytes, kGroupAt);
  const auto entry = Get<uint32_t>(bytes, kEntryAt);
  const auto numerics = Get<uint32_t>(bytes, kNumericsAt);
  constexpr uint32_t kMaxInt = std::numeric_limits<int>::max();
  if (group >= uint32_t{kMaxStoredGroups} || entry > kMaxInt || numerics > kMaxInt)
    return RecordFault::kChecksum;

  head->fingerprint = Get<Digest>(bytes, kFingerprintAt);
  head->ingredients = {.weights = Get<Digest>(bytes, kWeightsAt),
                       .architecture = Get<Digest>(bytes, kArchitectureAt),
                       .layout = Get<Digest>(bytes, kLayoutAt),
                       .numerics_version = static_cast<int>(numerics)};
  head->type = *type;
  head->name = {.digest = Get<Digest>(bytes, kNameAt)};
  head->tenant = Get<TenantTag>(bytes, kTenantAt);
  head->group = static_cast<int>(group);
  head->entry = static_cast<int>(entry);
  head->is_packed = (flags & kPacked) != 0;
  head->is_encrypted = (flags & kEncrypted) != 0;
  head->is_sealed = (flags & (kHasMac | kEncrypted)) != 0;
  head->key = Get<KeyId>(bytes, kKeyIdAt);
  head->payload_bytes = Get<uint64_t>(bytes, kPayloadBytesAt);
  head->body_bytes = Get<uint64_t>(bytes, kBodyBytesAt);
  return LengthsAreSane(*head) ? RecordFault::kNone : RecordFault::kChecksum;
}

Nonce ReadNonce(HeaderView header) { return Get<Nonce>(header, kNonceAt); }
void WriteNonce(HeaderBytes& header, const Nonce& nonce) { Put(header, kNonceAt, nonce); }

Digest ReadSeal(HeaderView header) { return Get<Digest>(header, kSealAt); }
void WriteSeal(HeaderBytes& header, std::span<const uint8_t> seal) {
  std::memcpy(header.data() + kSealAt, seal.data(), std::min(seal.size(), sizeof(Digest)));
}

Checksum128 ReadChecksum(HeaderView header) { return Get<Checksum128>(header, kChecksumAt); }
void WriteChecksum(HeaderBytes& header, const Checksum128& checksum) {
  Put(header, kChecksumAt, checksum);
}

Checksum128 ChecksumOf(HeaderView header, std::span<const std::byte> body) {
  HeaderBytes head;
  std::copy(header.begin(), header.end(), head.begin());
  WriteChecksum(head, {});
  thread_local const std::unique_ptr<XXH3_state_t, StateDeleter> state(XXH3_createState());
  QUIRE_CHECK(state != nullptr, "no memory for a checksum");
  XXH3_128bits_reset(state.get());
  XXH3_128bits_update(state.get(), head.data(), head.size());
  XXH3_128bits_update(state.get(), body.data(), body.size());
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return {.low = hash.low64, .high = hash.high64};
}

HeaderBytes WithoutProofs(HeaderView header) {
  HeaderBytes head;
  std::copy(header.begin(), header.end(), head.begin());
  WriteChecksum(head, {});
  Put(head, kSealAt, Digest{});
  return head;
}

bool UnusedBytesAreZero(HeaderView header) {
  const auto flags = Get<uint32_t>(header, kFlagsAt);
  const bool is_encrypted = (flags & kEncrypted) != 0;
  const bool is_sealed = is_encrypted || (flags & kHasMac) != 0;
  const size_t seal_bytes = is_encrypted ? KeyRing::kTagBytes : is_sealed ? sizeof(Digest) : 0;
  return IsZero(header, kSealAt + seal_bytes, kKeyIdAt) &&
         (is_sealed || IsZero(header, kKeyIdAt, kNonceAt)) &&
         (is_encrypted || IsZero(header, kNonceAt, kNumericsAt)) &&
         IsZero(header, kFirstUnusedAt, kFingerprintAt) &&
         IsZero(header, kSecondUnusedAt, kHiddenOffset);
}

}  // namespace quire
