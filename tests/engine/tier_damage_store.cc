#include "engine/tier_damage_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "engine/engine_fixture.h"
#include "engine/request_runs.h"
#include "kv/tiers/disk/disk_catalogue.h"
#include "kv/tiers/disk/disk_tier.h"
#include "kv/tiers/record_layout.h"
#include "support/scratch_directory.h"

namespace quire::testing {
namespace {

// Fields of a record's header (docs/kv-format.md).
constexpr size_t kFlagsAt = 12;
constexpr size_t kSealAt = 64;
constexpr size_t kSealEnd = 116;  // the seal, the key's id and the nonce
constexpr size_t kNameAt = 256;
constexpr uint32_t kPackedFlag = 1;

constexpr int kAnswerTokens = 3;

std::vector<int32_t> Tokens(int count, int first) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = (first + 7 * i) % 296;
  return tokens;
}

std::vector<Request> Prompts() {
  std::vector<int32_t> branch = Tokens(64, 0);
  for (const int32_t token : Tokens(26, 5)) branch.push_back(token);
  std::vector<Request> requests(4);
  requests[0].prompt = Tokens(100, 0);
  requests[1].prompt = branch;
  requests[2].prompt = Tokens(100, 0);
  requests[2].cache_salt = "another tenant";
  requests[3].prompt = Tokens(150, 100);
  for (Request& request : requests) {
    request.max_tokens = kAnswerTokens;
    request.sampling.seed = 1;
    request.sampling.logprobs = 2;
    request.ignore_end_of_text = true;
  }
  return requests;
}

std::shared_ptr<const KeyRing> RingOf(uint8_t byte) {
  std::array<uint8_t, 32> secret;
  secret.fill(byte);
  return KeyRing::Make(std::span(&secret, 1)).value();
}

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A tier that tells nothing of its speed.
class UnmeasuredTier final : public Tier {
 public:
  explicit UnmeasuredTier(std::unique_ptr<Tier> tier) : tier_(std::move(tier)) {}

  TierKind kind() const override { return tier_->kind(); }
  TierStatus status() const override { return tier_->status(); }
  TierState state() const override { return tier_->state(); }
  bool MayHold(const BlockKey& key) const override { return tier_->MayHold(key); }
  bool KnowsAll() const override { return tier_->KnowsAll(); }
  Status Find(std::span<const BlockKey> keys, TierDeadline deadline,
              std::vector<bool>& found) override {
    return tier_->Find(keys, deadline, found);
  }
  void Load(std::span<const BlockLoad> loads, TierDeadline deadline,
            const std::function<bool()>& cancelled,
            const std::function<void(size_t idx, RecordFault fault)>& done) override {
    tier_->Load(loads, deadline, cancelled, done);
  }
  StoreOutcome Store(const StoredBlock& block, std::span<const std::byte> payload,
                     TierDeadline deadline) override {
    return tier_->Store(block, payload, deadline);
  }
  void Touch(std::span<const BlockKey> keys) override { tier_->Touch(keys); }
  Status Flush(TierDeadline deadline) override { return tier_->Flush(deadline); }
  std::optional<TierSpeed> Measure(TierDeadline) override { return std::nullopt; }
  std::optional<std::string_view> OtherModel(std::string_view salt,
                                             std::span<const int32_t> tokens) const override {
    return tier_->OtherModel(salt, tokens);
  }

 private:
  std::unique_ptr<Tier> tier_;
};

TierFactory Unmeasured(TierFactory factory) {
  return [factory = std::move(factory)](
             std::shared_ptr<const RecordCodec> codec) -> Result<std::unique_ptr<Tier>> {
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Tier> tier, factory(std::move(codec)));
    return std::unique_ptr<Tier>(std::make_unique<UnmeasuredTier>(std::move(tier)));
  };
}

// Makes the checksum fit what the record has become.
void MendChecksum(std::string& record) {
  const auto bytes = std::as_writable_bytes(std::span(record.data(), record.size()));
  HeaderBytes header;
  std::copy_n(bytes.begin(), kRecordHeaderBytes, header.begin());
  WriteChecksum(header, ChecksumOf(header, bytes.subspan(kRecordHeaderBytes)));
  std::ranges::copy(header, bytes.begin());
}

}  // namespace

std::string DamageRandom::Bytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t at = 0; at < count; at += sizeof(uint64_t)) {
    const uint64_t word = engine_();
    std::memcpy(bytes.data() + at, &word, std::min(sizeof(word), count - at));
  }
  return bytes;
}

void DamageRandom::FlipBits(std::string& bytes, size_t begin, size_t count) {
  // Different bytes: a bit that is flipped twice is whole.
  const size_t num_bits = std::min<size_t>(1 + Below(8), count);
  const size_t first = Below(count);
  const size_t stride = std::max<size_t>(1, count / 9);
  for (size_t i = 0; i < num_bits; ++i) {
    char& byte = bytes[begin + (first + i * stride) % count];
    byte = static_cast<char>(byte ^ (1 << Below(8)));
  }
}

DamageStore::DamageStore(const std::string& model, DamageSeal seal)
    : name_(model), path_(TinyModel(model)), seal_(seal) {
  if (has_key()) {
    keys_ = RingOf(1);
    other_keys_ = RingOf(2);
  }
  const auto engine = MakeTestEngine(path_, Options(KvType::kF16));
  for (const Request& request : Prompts()) {
    const int whole = (static_cast<int>(request.prompt.size()) - 1) / kBlockSlots * kBlockSlots;
    // Without the cache: what a cold engine says.
    Request cold = request;
    cold.cache_salt = fmt::format("cold {}", prompts_.size());
    prompts_.push_back({.request = request, .cold = RunOne(*engine, cold), .whole_tokens = whole});
  }
  const ScratchDirectory scratch;
  const auto other = scratch.path() / "other";
  Fill(other, KvType::kF32);
  for (const auto& entry : std::filesystem::directory_iterator(other)) {
    if (entry.path().extension() == ".slab") other_slab_ = ReadFile(entry.path());
    if (entry.path().extension() == ".index") other_index_ = ReadFile(entry.path());
  }
  const auto own = scratch.path() / "own";
  Fill(own, KvType::kF16);
  ReadPieces(own);
}

EngineOptions DamageStore::Options(KvType type) const {
  EngineOptions options{
      .runner = {.num_threads = 1, .context_length = 256, .kv_type = type, .num_sequences = 8}};
  options.tiers.keys = keys_;
  options.tiers.encrypts = seal_ == DamageSeal::kEncrypted;
  options.tiers.idle_ms = 0;
  return options;
}

Result<std::unique_ptr<Engine>> DamageStore::Open(std::vector<TierFactory> tiers,
                                                  const Opening& opening) const {
  EngineOptions options = Options(KvType::kF16);
  options.tiers.factories = std::move(tiers);
  options.tiers.flush_ms = opening.flush_ms;
  options.tiers.set.store_ms = opening.store_ms;
  if (opening.loads_always) {
    for (TierFactory& factory : options.tiers.factories) factory = Unmeasured(std::move(factory));
    // Loads take no time, which tells nothing of a speed.
    options.tiers.set.clock = [now = std::chrono::steady_clock::now()] { return now; };
  }
  return Engine::Create(path_, options);
}

void DamageStore::Fill(const std::filesystem::path& directory, KvType type) {
  EngineOptions options = Options(type);
  options.tiers.flush_ms = 60'000;
  options.tiers.set.store_ms = 60'000;
  options.tiers.factories.push_back([&](std::shared_ptr<const RecordCodec> codec) {
    codec_ = codec;
    return OpenDiskTier(
        codec, {.directory = directory, .max_bytes = kDamageDiskBytes, .min_free_bytes = 0});
  });
  const auto engine = MakeTestEngine(path_, options);
  for (const Prompt& prompt : prompts_) RunOne(*engine, prompt.request);
  QUIRE_CHECK(engine->FlushTiers() == 0, "not all blocks were stored");
}

void DamageStore::ReadPieces(const std::filesystem::path& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string file = entry.path().filename().string();
    if (file == "LOCK") continue;
    files_[file] = ReadFile(entry.path());
    if (entry.path().extension() == ".slab") slab_ = file;
    if (entry.path().extension() == ".index") index_ = file;
  }
  auto catalogue = DiskCatalogue::Open(directory, CatalogueMode::kRead);
  QUIRE_CHECK(catalogue.ok(), "{}", catalogue.error().message);
  for (const CataloguedRecord& record : (*catalogue)->records()) {
    slot_bytes_ = record.bytes;
    const auto bytes = (*catalogue)->Read(record);
    QUIRE_CHECK(bytes.ok(), "{}", bytes.error().message);
    Piece piece{.slot = record.slot};
    const RecordFault fault =
        OpenRecord(*bytes, keys_.get(), SealDemand::kNone, &piece.block, &piece.payload);
    QUIRE_CHECK(fault == RecordFault::kNone, "{}", quire::NameOf(fault));
    pieces_.push_back(std::move(piece));
  }
  QUIRE_CHECK(pieces_.size() > 8, "{} pieces", pieces_.size());
}

std::string DamageStore::KeyOf(size_t piece) const {
  return fmt::format("quire:kv:{}:{}:{}", kRecordVersion,
                     ToHex(codec_->model().fingerprint).substr(0, 16),
                     ToHex(codec_->NameOf(pieces_[piece].block.key()).digest));
}

std::string DamageStore::Encoded(const RecordCodec& codec, const StoredBlock& block,
                                 std::span<const std::byte> payload, Packing packing) const {
  std::vector<std::byte> record;
  codec.Encode(block, payload, packing, record);
  return TextOf(record);
}

std::string DamageStore::RecordOf(size_t piece, Packing packing) const {
  return Encoded(*codec_, pieces_[piece].block, pieces_[piece].payload, packing);
}

std::string DamageStore::Forge(Forgery forgery, size_t piece, Packing packing,
                               DamageRandom& random) const {
  const Piece& true_piece = pieces_[piece];
  const StoredModel& model = codec_->model();
  const bool encrypts = codec_->encrypts();
  StoredBlock block = true_piece.block;
  std::vector<std::byte> payload = true_piece.payload;
  payload[random.Below(payload.size())] ^= std::byte{0x41};
  std::string record;
  switch (forgery) {
    case Forgery::kOtherModel: {
      StoredModel other = model;
      other.ingredients.weights[random.Below(32)] ^= 1;
      other.fingerprint = FingerprintOf(other.ingredients);
      return Encoded({other, keys_, encrypts}, block, payload, packing);
    }
    case Forgery::kOtherTenant:
      block.root = RootOf(model.fingerprint, "somebody else");
      if (block.entry == 0) block.parent = block.root;
      break;
    case Forgery::kOtherBlock:
      block.tokens[random.Below(kBlockSlots)] ^= 1;
      break;
    case Forgery::kForged: {
      record = Encoded(*codec_, true_piece.block, true_piece.payload, packing);
      random.FlipBits(record, kRecordHeaderBytes, record.size() - kRecordHeaderBytes);
      break;
    }
    case Forgery::kUnsealed:
      record = Encoded({model, nullptr, false}, block, payload, packing);
      break;
    case Forgery::kUnknownKey:
      record = Encoded({model, other_keys_, encrypts}, block, payload, packing);
      break;
    case Forgery::kStripped: {
      record = Encoded(*codec_, block, payload, packing);
      uint32_t flags = 0;
      std::memcpy(&flags, record.data() + kFlagsAt, sizeof(flags));
      flags &= kPackedFlag;
      std::memcpy(record.data() + kFlagsAt, &flags, sizeof(flags));
      std::fill(record.begin() + kSealAt, record.begin() + kSealEnd, '\0');
      break;
    }
  }
  if (record.empty()) {
    // Whole and in its place elsewhere; half of the time it bears the name of the one it replaces.
    block.id = ChildOf(block.parent, block.tokens);
    record = Encoded(*codec_, block, payload, packing);
    if (random.OneIn(2)) return record;
  }
  // Under the true one's name, which is no secret.
  const RecordName name = codec_->NameOf(true_piece.block.key());
  std::memcpy(record.data() + kNameAt, name.digest.data(), name.digest.size());
  MendChecksum(record);
  return record;
}

}  // namespace quire::testing
