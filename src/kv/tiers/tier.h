// One place outside memory that keeps blocks: a disk, a Redis server.
//
// Blocking calls are made by tier threads (kv/tiers/tier_set.h) and keep to their deadline as far
// as the medium allows; the others never wait. A tier never gives a wrong block: it proves each
// with the engine's RecordCodec, and whatever is wrong is a named fault, counted here. A tier that
// fails again and again rests for a while (kDown) and is tried again by itself. Thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kv/tiers/record.h"
#include "kv/tiers/tier_speed.h"

namespace quire {

enum class TierKind : uint8_t { kDisk, kRemote };
inline constexpr int kNumTierKinds = 2;
// "disk", "remote"
std::string_view NameOf(TierKind kind);

using TierDeadline = std::chrono::steady_clock::time_point;

// A block that is wanted.
struct BlockLoad {
  StoredBlock block{};             // what it must be
  std::span<std::byte> payload{};  // [group_bytes of its group] where it goes
};

enum class StoreOutcome : uint8_t {
  kStored,
  kHeld,    // it was there already: counts as used
  kNoRoom,  // the cap, the free-space guard or what is more worth keeping leaves no place
  kQuota,   // its tenant's quota leaves none
  kFailed,  // counted as a fault
  kDown,    // not tried
};

struct TierState {
  bool is_up = true;
  std::string reason{};    // of being down: one line for people
  double down_for_ms = 0;  // since when
};

// Since the start.
struct TierCounters {
  int64_t names_asked = 0;  // by Find
  int64_t names_found = 0;
  int64_t blocks_loaded = 0;
  int64_t bytes_loaded = 0;  // of payload
  double load_ms = 0;
  int64_t blocks_stored = 0;
  int64_t bytes_stored = 0;  // of records
  double store_ms = 0;
  int64_t stores_refused = 0;  // kNoRoom, kQuota
  int64_t evictions = 0;
  int64_t times_down = 0;
  std::array<int64_t, kNumRecordFaults> faults{};  // by RecordFault; kNone stays 0
};

// What others may know of a tier at any moment.
struct TierStatus {
  TierKind kind = TierKind::kDisk;
  std::string place{};  // directory, or URL without its password
  bool is_read_only = false;
  TierState state{};
  TierCounters counters{};
  int64_t num_records = -1;  // of this model; -1 = not known
  uint64_t bytes = 0;        // that it takes, of all models and overhead; 0 = not known
  uint64_t max_bytes = 0;    // 0 = no cap of ours
  TierSpeed speed{};
  int64_t blocks_dropped = 0;  // that were to be stored and found no room on the way (TierSet)
};

class Tier {
 public:
  virtual ~Tier() = default;

  virtual TierKind kind() const = 0;
  virtual TierStatus status() const = 0;  // speed and blocks_dropped are left to the TierSet
  virtual TierState state() const = 0;

  // As far as is known without asking: false = not there, or not known to be. Never waits.
  virtual bool MayHold(const BlockKey& key) const = 0;
  // MayHold is all there is to know: Find need not be asked.
  virtual bool KnowsAll() const = 0;

  // found[i]: whether keys[i] is there. An error says that nothing is known (counted).
  virtual Status Find(std::span<const BlockKey> keys, TierDeadline deadline,
                      std::vector<bool>& found) = 0;
  // Loads one after another (or all at once); calls done(i, fault) once for each, in any order,
  // from this thread. `cancelled` is looked at between blocks: the rest is then told kCancelled.
  virtual void Load(std::span<const BlockLoad> loads, TierDeadline deadline,
                    const std::function<bool()>& cancelled,
                    const std::function<void(size_t idx, RecordFault fault)>& done) = 0;
  virtual StoreOutcome Store(const StoredBlock& block, std::span<const std::byte> payload,
                             TierDeadline deadline) = 0;
  // These were used just now. Never waits: what it costs is done with the next Store or Flush.
  virtual void Touch(std::span<const BlockKey> keys) = 0;
  // Makes what was stored outlast the machine, as far as the tier does.
  virtual Status Flush(TierDeadline deadline) = 0;

  // The speed of a load, tried out with a record of its own that is gone afterwards. Nothing where
  // that cannot be told.
  virtual std::optional<TierSpeed> Measure(TierDeadline deadline) = 0;

  // Whether another model than this one holds a block for the same prompt: salt and tokens (whole
  // blocks) give its identities. The ingredient that differs ("weights", "architecture", "kv_type
  // or layout", "numerics"), or nothing. Never waits.
  virtual std::optional<std::string_view> OtherModel(std::string_view salt,
                                                     std::span<const int32_t> tokens) const = 0;
};

}  // namespace quire
