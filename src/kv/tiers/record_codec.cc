#include "kv/tiers/record_codec.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "base/check.h"
#include "kv/tiers/record_layout.h"
#include "kv/tiers/zstd_frame.h"

namespace quire {
namespace {

// What names and tags are hashed with; part of the format.
constexpr std::string_view kNamePurpose = "quire kv name";
constexpr std::string_view kTenantPurpose = "quire kv tenant";

// keys: null = not keyed.
Digest HashOf(std::string_view purpose, std::span<const std::byte> text, const KeyRing* keys,
              const KeyId& key) {
  if (keys != nullptr) return keys->Name(key, purpose, text);
  return Sha256().Add(purpose).Add(text).Finish();
}

RecordName NameFor(const BlockKey& block, const KeyRing* keys, const KeyId& key) {
  std::array<std::byte, sizeof(Digest) + sizeof(uint32_t)> text;
  const auto group = static_cast<uint32_t>(block.group);
  std::memcpy(text.data(), block.id.data(), sizeof(Digest));
  std::memcpy(text.data() + sizeof(Digest), &group, sizeof(group));
  return {.digest = HashOf(kNamePurpose, text, keys, key)};
}

TenantTag TagFor(const Digest& root, const KeyRing* keys, const KeyId& key) {
  const Digest digest = HashOf(kTenantPurpose, std::as_bytes(std::span(root)), keys, key);
  TenantTag tag;
  std::copy_n(digest.begin(), tag.size(), tag.begin());
  return tag;
}

bool SameIngredients(const FingerprintInput& a, const FingerprintInput& b) {
  return a.weights == b.weights && a.architecture == b.architecture && a.layout == b.layout &&
         a.numerics_version == b.numerics_version;
}

bool Overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<const std::byte*> before;
  return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

// Whether the seal that the head tells of can be looked at and has to be.
enum class SealCheck : uint8_t { kNone, kByKey };

RecordFault CheckDemand(const RecordHead& head, const KeyRing* keys, SealDemand demand,
                        SealCheck* check) {
  *check = SealCheck::kNone;
  if (!head.is_sealed) {
    return demand == SealDemand::kDemanded ? RecordFault::kUnsealed : RecordFault::kNone;
  }
  if (keys == nullptr) {
    return demand == SealDemand::kDemanded ? RecordFault::kUnknownKey : RecordFault::kNone;
  }
  if (!keys->Knows(head.key)) return RecordFault::kUnknownKey;
  *check = SealCheck::kByKey;
  return RecordFault::kNone;
}

RecordFault CheckMac(HeaderView header, std::span<const std::byte> body, const KeyRing& keys,
                     const KeyId& key) {
  const HeaderBytes head = WithoutProofs(header);
  const std::span<const std::byte> parts[] = {head, body};
  return KeyRing::Equal(keys.Mac(key, parts), ReadSeal(header)) ? RecordFault::kNone
                                                                : RecordFault::kForged;
}

// The clear part of a header as encryption proves it.
std::span<const std::byte> ClearPart(const HeaderBytes& head) {
  return std::span(head).first<kHiddenOffset>();
}

// Decrypts hidden head and body in place.
RecordFault Reveal(HeaderView header, std::span<std::byte> body, const KeyRing& keys,
                   const KeyId& key, HiddenHead* hidden) {
  HeaderBytes head = WithoutProofs(header);
  const std::span<std::byte> parts[] = {std::span(head).last<kHiddenBytes>(), body};
  const Digest seal = ReadSeal(header);
  const bool fits = keys.Decrypt(key, ReadNonce(header), ClearPart(head), parts,
                                 std::span(seal).first<KeyRing::kTagBytes>());
  *hidden = ReadHidden(std::span(head).last<kHiddenBytes>());
  return fits ? RecordFault::kNone : RecordFault::kForged;
}

// All that is proven without a key and without changing anything, and by a MAC. `head` is read
// already and `body` has its length.
RecordFault ProveClear(HeaderView header, const RecordHead& head, std::span<const std::byte> body,
                       const KeyRing* keys, SealDemand demand, SealCheck* check) {
  if (const auto fault = CheckDemand(head, keys, demand, check); fault != RecordFault::kNone) {
    return fault;
  }
  if (ChecksumOf(header, body) != ReadChecksum(header)) return RecordFault::kChecksum;
  const bool has_mac_to_check = *check == SealCheck::kByKey && !head.is_encrypted;
  return has_mac_to_check ? CheckMac(header, body, *keys, head.key) : RecordFault::kNone;
}

// Whether the header of a proven record says nothing that is not understood, and agrees with
// itself about the model.
RecordFault CheckModel(HeaderView header, const RecordHead& head) {
  if (!UnusedBytesAreZero(header)) return RecordFault::kVersion;
  return FingerprintOf(head.ingredients) == head.fingerprint ? RecordFault::kNone
                                                             : RecordFault::kOtherModel;
}

// Whether name and tag are those of the block.
RecordFault CheckNames(const RecordHead& head, const HiddenHead& hidden, const BlockKey& key,
                       const KeyRing* keys) {
  const KeyRing* used = head.is_sealed ? keys : nullptr;
  const bool knows_names = !head.is_sealed || keys != nullptr;
  if (knows_names && (head.name != NameFor(key, used, head.key) ||
                      head.tenant != TagFor(hidden.root, used, head.key))) {
    return RecordFault::kOtherBlock;
  }
  return RecordFault::kNone;
}

RecordFault Unpack(const RecordHead& head, std::span<const std::byte> body,
                   std::span<std::byte> payload) {
  if (head.is_packed) {
    if (Overlap(body, payload)) return RecordFault::kBadPayload;
    return UnpackFrame(body, payload) ? RecordFault::kNone : RecordFault::kBadPayload;
  }
  if (body.data() != payload.data()) std::memmove(payload.data(), body.data(), payload.size());
  return RecordFault::kNone;
}

// The head and body of a whole record.
RecordFault Split(std::span<const std::byte> record, RecordHead* head,
                  std::span<const std::byte>* body) {
  if (const auto fault = ReadHead(record, head); fault != RecordFault::kNone) return fault;
  *body = record.subspan(kRecordHeaderBytes);
  if (body->size() < head->body_bytes) return RecordFault::kTruncated;
  return body->size() == head->body_bytes ? RecordFault::kNone : RecordFault::kChecksum;
}

// Proves a whole record; `hidden` and `plain` (of the body, where it had to be decrypted) are what
// it holds, where the record is not encrypted or the key is there.
RecordFault Prove(std::span<const std::byte> record, const KeyRing* keys, SealDemand demand,
                  RecordHead* head, HiddenHead* hidden, std::vector<std::byte>* plain) {
  std::span<const std::byte> body;
  if (const auto fault = Split(record, head, &body); fault != RecordFault::kNone) return fault;
  const HeaderView header = record.first<kRecordHeaderBytes>();
  SealCheck check;
  if (const auto fault = ProveClear(header, *head, body, keys, demand, &check);
      fault != RecordFault::kNone) {
    return fault;
  }
  *hidden = ReadHidden(header.last<kHiddenBytes>());
  if (head->is_encrypted && check == SealCheck::kByKey) {
    plain->assign(body.begin(), body.end());
    const auto fault = Reveal(header, *plain, *keys, head->key, hidden);
    if (fault != RecordFault::kNone) return fault;
  }
  return CheckModel(header, *head);
}

}  // namespace

Status RecordCodec::CanStore(const StoredModel& model) {
  if (model.group_bytes.empty() || model.group_bytes.size() > size_t{kMaxStoredGroups}) {
    return MakeError(ErrorCode::kUnsupported,
                     "blocks of {} groups of layers cannot be stored: 1 to {} can",
                     model.group_bytes.size(), kMaxStoredGroups);
  }
  for (const size_t bytes : model.group_bytes) {
    if (bytes == 0 || bytes > kMaxBodyBytes) {
      return MakeError(ErrorCode::kUnsupported,
                       "a block of {} bytes cannot be stored: a record holds 1 to {}", bytes,
                       kMaxBodyBytes);
    }
  }
  return {};
}

RecordCodec::RecordCodec(StoredModel model, std::shared_ptr<const KeyRing> keys, bool encrypts)
    : model_(std::move(model)), keys_(std::move(keys)), encrypts_(encrypts) {
  QUIRE_CHECK(!encrypts_ || keys_ != nullptr, "encryption without a key");
  QUIRE_CHECK(CanStore(model_).ok(), "blocks of {} groups", model_.group_bytes.size());
  QUIRE_CHECK(model_.fingerprint == FingerprintOf(model_.ingredients), "another fingerprint");
}

RecordName RecordCodec::NameOf(const BlockKey& key) const {
  return NameFor(key, keys_.get(), keys_ ? keys_->id() : KeyId{});
}

TenantTag RecordCodec::TagOf(const Digest& root) const {
  return TagFor(root, keys_.get(), keys_ ? keys_->id() : KeyId{});
}

size_t RecordCodec::MaxRecordBytes() const {
  return kRecordHeaderBytes +
         *std::max_element(model_.group_bytes.begin(), model_.group_bytes.end());
}

std::span<const std::byte> RecordCodec::Encode(const StoredBlock& block,
                                               std::span<const std::byte> payload, Packing packing,
                                               std::span<std::byte, kRecordHeaderBytes> header,
                                               std::vector<std::byte>& made) const {
  QUIRE_CHECK(block.group >= 0 && static_cast<size_t>(block.group) < model_.group_bytes.size() &&
                  payload.size() == model_.group_bytes[block.group] && block.entry >= 0,
              "group {}, entry {}, {} bytes", block.group, block.entry, payload.size());
  QUIRE_CHECK(block.id == ChildOf(block.parent, block.tokens), "an id of other tokens");
  RecordHead head{.fingerprint = model_.fingerprint,
                  .ingredients = model_.ingredients,
                  .type = model_.type,
                  .name = NameOf(block.key()),
                  .tenant = TagOf(block.root),
                  .group = block.group,
                  .entry = block.entry,
                  .is_sealed = has_key(),
                  .is_encrypted = encrypts_,
                  .key = keys_ ? keys_->id() : KeyId{},
                  .payload_bytes = payload.size()};
  if (packing == Packing::kZstd) {
    made.resize(payload.size() - 1);
    if (const auto size = PackFrame(payload, made)) {
      head.is_packed = true;
      made.resize(*size);
    }
  }
  // What is encrypted is encrypted in place.
  if (!head.is_packed && encrypts_) made.assign(payload.begin(), payload.end());
  const std::span<const std::byte> body =
      head.is_packed || encrypts_ ? std::span<const std::byte>(made) : payload;
  head.body_bytes = body.size();

  HeaderBytes bytes =
      MakeHeader(head, {.root = block.root, .parent = block.parent, .tokens = block.tokens});
  if (encrypts_) {
    const Nonce nonce = KeyRing::RandomNonce();
    WriteNonce(bytes, nonce);
    const std::span<std::byte> parts[] = {std::span(bytes).last<kHiddenBytes>(), made};
    std::array<uint8_t, KeyRing::kTagBytes> tag;
    keys_->Encrypt(nonce, ClearPart(bytes), parts, tag);
    WriteSeal(bytes, tag);
  } else if (keys_ != nullptr) {
    const std::span<const std::byte> parts[] = {bytes, body};
    WriteSeal(bytes, keys_->Mac(keys_->id(), parts));
  }
  WriteChecksum(bytes, ChecksumOf(bytes, body));
  std::ranges::copy(bytes, header.begin());
  return body;
}

void RecordCodec::Encode(const StoredBlock& block, std::span<const std::byte> payload,
                         Packing packing, std::vector<std::byte>& record) const {
  HeaderBytes header;
  std::vector<std::byte> made;
  const auto body = Encode(block, payload, packing, header, made);
  record.assign(header.begin(), header.end());
  record.insert(record.end(), body.begin(), body.end());
}

RecordFault RecordCodec::Decode(std::span<const std::byte, kRecordHeaderBytes> header,
                                std::span<std::byte> body, const StoredBlock& wanted,
                                SealDemand demand, std::span<std::byte> payload) const {
  QUIRE_CHECK(wanted.group >= 0 && static_cast<size_t>(wanted.group) < model_.group_bytes.size() &&
                  payload.size() == model_.group_bytes[wanted.group],
              "group {}, {} bytes", wanted.group, payload.size());
  RecordHead head;
  if (const auto fault = ReadHead(header, &head); fault != RecordFault::kNone) return fault;
  if (body.size() != head.body_bytes) {
    // A place that holds another model's blocks has another length: said as what it is.
    if (head.fingerprint != model_.fingerprint) return RecordFault::kOtherModel;
    return body.size() < head.body_bytes ? RecordFault::kTruncated : RecordFault::kChecksum;
  }
  // A sealed record is taken only with its key, whatever is demanded: its name is keyed.
  if (head.is_sealed && keys_ == nullptr) return RecordFault::kUnknownKey;
  SealCheck check;
  if (const auto fault = ProveClear(header, head, body, keys_.get(), demand, &check);
      fault != RecordFault::kNone) {
    return fault;
  }
  HiddenHead hidden = ReadHidden(header.last<kHiddenBytes>());
  if (head.is_encrypted) {
    const auto fault = Reveal(header, body, *keys_, head.key, &hidden);
    if (fault != RecordFault::kNone) return fault;
  }

  if (!UnusedBytesAreZero(header)) return RecordFault::kVersion;
  if (head.fingerprint != model_.fingerprint ||
      !SameIngredients(head.ingredients, model_.ingredients) || head.type != model_.type) {
    return RecordFault::kOtherModel;
  }
  if (head.group != wanted.group || head.entry != wanted.entry || hidden.root != wanted.root ||
      hidden.parent != wanted.parent || hidden.tokens != wanted.tokens ||
      ChildOf(hidden.parent, hidden.tokens) != wanted.id) {
    return RecordFault::kOtherBlock;
  }
  if (head.payload_bytes != payload.size()) return RecordFault::kOtherModel;
  const auto fault = CheckNames(head, hidden, wanted.key(), keys_.get());
  return fault != RecordFault::kNone ? fault : Unpack(head, body, payload);
}

RecordFault VerifyRecord(std::span<const std::byte> record, const KeyRing* keys,
                         SealDemand demand) {
  RecordHead head;
  HiddenHead hidden;
  std::vector<std::byte> plain;
  return Prove(record, keys, demand, &head, &hidden, &plain);
}

RecordFault OpenRecord(std::span<const std::byte> record, const KeyRing* keys, SealDemand demand,
                       StoredBlock* block, std::vector<std::byte>* payload) {
  RecordHead head;
  HiddenHead hidden;
  std::vector<std::byte> plain;
  const auto fault = Prove(record, keys, demand, &head, &hidden, &plain);
  if (fault != RecordFault::kNone) return fault;
  if (head.is_encrypted && keys == nullptr) return RecordFault::kUnknownKey;
  *block = {.id = ChildOf(hidden.parent, hidden.tokens),
            .parent = hidden.parent,
            .root = hidden.root,
            .group = head.group,
            .entry = head.entry,
            .tokens = hidden.tokens};
  if (const auto other = CheckNames(head, hidden, block->key(), keys);
      other != RecordFault::kNone) {
    return other;
  }
  const std::span<const std::byte> body =
      head.is_encrypted ? plain : record.subspan(kRecordHeaderBytes);
  payload->resize(head.payload_bytes);
  return Unpack(head, body, *payload);
}

}  // namespace quire
