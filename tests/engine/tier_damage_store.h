// What a model has stored before it is damaged: prompts with the answers that they get cold, and
// every block of theirs as tiers keep it. Made once; const afterwards.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "kv/tiers/record_codec.h"

namespace quire::testing {

enum class DamageSeal : uint8_t { kNone, kMac, kEncrypted };

// Draws that are the same with every library.
class DamageRandom {
 public:
  explicit DamageRandom(uint64_t seed) : engine_(seed * 2654435761 + 17) {}

  size_t Below(size_t bound) { return static_cast<size_t>(engine_() % bound); }
  bool OneIn(size_t count) { return Below(count) == 0; }
  std::string Bytes(size_t count);
  // Flips 1 to 8 bits in bytes [begin, begin + count).
  void FlipBits(std::string& bytes, size_t begin, size_t count);

 private:
  std::mt19937_64 engine_;
};

// A record that is well made and not the one that is asked for. All but the first three need a key
// to be told from a true one.
enum class Forgery : uint8_t {
  kOtherModel,
  kOtherTenant,
  kOtherBlock,
  kForged,      // bytes changed, and the checksum made to fit
  kUnsealed,    // sealed with nothing
  kStripped,    // the seal taken off
  kUnknownKey,  // sealed with another key
};

class DamageStore {
 public:
  struct Prompt {
    Request request{};
    RequestResult cold{};
    int whole_tokens = 0;  // that may be found
  };
  struct Piece {
    StoredBlock block{};
    std::vector<std::byte> payload{};
    int64_t slot = 0;  // of the slab
  };

  DamageStore(const std::string& model, DamageSeal seal);

  const std::string& name() const { return name_; }
  bool has_key() const { return seal_ != DamageSeal::kNone; }
  const std::vector<Prompt>& prompts() const { return prompts_; }
  const std::vector<Piece>& pieces() const { return pieces_; }

  struct Opening {
    bool loads_always = false;  // what is found: no tier's speed is ever known
    double flush_ms = 10'000;
    double store_ms = 2000;
  };
  Result<std::unique_ptr<Engine>> Open(std::vector<TierFactory> tiers,
                                       const Opening& opening) const;

  // The disk tier's files by name, and its slots.
  const std::map<std::string, std::string>& files() const { return files_; }
  const std::string& slab() const { return slab_; }    // name
  const std::string& index() const { return index_; }  // name
  size_t slot_bytes() const { return slot_bytes_; }
  // Files of the same model with another KV type.
  const std::string& other_slab() const { return other_slab_; }
  const std::string& other_index() const { return other_index_; }

  // The remote tier's key of a piece.
  std::string KeyOf(size_t piece) const;
  std::string RecordOf(size_t piece, Packing packing) const;
  std::string Forge(Forgery forgery, size_t piece, Packing packing, DamageRandom& random) const;

 private:
  EngineOptions Options(KvType type) const;
  void Fill(const std::filesystem::path& directory, KvType type);
  void ReadPieces(const std::filesystem::path& directory);
  std::string Encoded(const RecordCodec& codec, const StoredBlock& block,
                      std::span<const std::byte> payload, Packing packing) const;

  std::string name_;
  std::filesystem::path path_;
  DamageSeal seal_;
  std::shared_ptr<const KeyRing> keys_;
  std::shared_ptr<const KeyRing> other_keys_;
  std::shared_ptr<const RecordCodec> codec_;
  std::vector<Prompt> prompts_;
  std::vector<Piece> pieces_;
  std::map<std::string, std::string> files_;
  std::string slab_;
  std::string index_;
  std::string other_slab_;
  std::string other_index_;
  size_t slot_bytes_ = 0;
};

// As they were before the damage: what a disk tier of these tests may take.
inline constexpr uint64_t kDamageDiskBytes = uint64_t{4} << 20;

}  // namespace quire::testing
