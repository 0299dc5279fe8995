// The tiers of an engine, and the threads that move blocks to and from them.
//
//   engine thread: Find, Load, Cancel, Offer  -->  bounded queues  -->  tier threads: Tier's verbs
//   engine thread: TakeEvents                 <--  events          <--
//
// Each tier has threads that read and one that writes, the latter at a low priority: what computes
// goes first. The memory of a load is the tier thread's from Load until its event has been taken.
// What is offered is copied; where the copies take all the room they may, it is dropped and
// counted, so that no slow tier holds anybody up.
//
// Invariants:
//   1. Every block of a Load comes back in just one event, whatever happens; Stop waits for that.
//   2. Copies of offered blocks take no more than staging_bytes.
//   3. No verb of the engine thread waits for a tier (Flush and Stop apart).
// All verbs but status() and speed() are one thread's; those are any thread's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kv/tiers/record_codec.h"
#include "kv/tiers/tier.h"

namespace quire {

using TierTicket = int64_t;

struct TierEvent {
  enum class Kind : uint8_t { kFound, kLoaded };
  Kind kind = Kind::kFound;
  TierTicket ticket = 0;
  int tier = 0;  // index
  // kFound: [keys of the ticket]; where the tier failed, all false, and `fault` says why.
  std::vector<bool> found{};
  // kLoaded: one block of the ticket's.
  size_t idx = 0;
  RecordFault fault = RecordFault::kNone;
};

enum class OfferOutcome : uint8_t {
  kTaken,   // copied, for one tier at least
  kHeld,    // every tier that is up has it, and counts it as used
  kNoRoom,  // dropped
  kNoTier,  // all are down, or read only
};

struct TierSetOptions {
  size_t staging_bytes = size_t{64} << 20;  // of copies that wait to be stored
  int read_threads = 2;                     // a tier
  double store_ms = 2000;                   // a store may take
  std::function<TierDeadline()> clock{};    // of deadlines and speeds; empty = the steady clock
};

class TierSet {
 public:
  static std::unique_ptr<TierSet> Create(std::shared_ptr<const RecordCodec> codec,
                                         std::vector<std::unique_ptr<Tier>> tiers,
                                         const TierSetOptions& options = {});
  // Stops. Memory of loads under way must outlive it.
  virtual ~TierSet() = default;

  virtual int num_tiers() const = 0;
  virtual const Tier& tier(int idx) const = 0;
  virtual const RecordCodec& codec() const = 0;
  virtual TierSpeed speed(int idx) const = 0;
  virtual std::vector<TierStatus> status() const = 0;

  // Asks every tier for all keys. One event a tier; of a tier that knows all it is there at once.
  virtual TierTicket Find(std::vector<BlockKey> keys, TierDeadline deadline) = 0;
  // One event a block.
  virtual TierTicket Load(int tier, std::vector<BlockLoad> loads, TierDeadline deadline) = 0;
  // What has not begun comes back kCancelled, without waiting for the tier. Unknown tickets are
  // passed over; of a Find no event comes any more.
  virtual void Cancel(TierTicket ticket) = 0;

  virtual std::vector<TierEvent> TakeEvents() = 0;
  // Waits until there are events, at most so long; false where there are none.
  virtual bool WaitForEvents(std::chrono::microseconds at_most) = 0;

  // To be stored in every tier that does not hold it. payload is copied before it returns.
  virtual OfferOutcome Offer(const StoredBlock& block, std::span<const std::byte> payload) = 0;
  // Whether any tier takes blocks at this moment, and whether some may ever.
  virtual bool HasStorer() const = 0;
  virtual bool MayStore() const = 0;
  // Whether a further block finds room among the copies.
  virtual bool HasRoom() const = 0;
  // Waits until what was offered is stored or given up, and the tiers have flushed.
  virtual Status Flush(TierDeadline deadline) = 0;

  // Tries out how fast the tiers are; at the start, before anything else.
  virtual void Measure(TierDeadline deadline) = 0;
};

}  // namespace quire
