// Copies of blocks that wait to be stored, and the threads that store them.
//
//   Offer: copy --> one staging slot --> a queue for each tier that wants it --> Tier::Store
//
// A slot holds a block of the largest group; it is shared by the tiers and free again when the last
// of them is done. Slots are made when first needed, never more than staging_bytes hold, and kept.
// A tier may have no more blocks waiting than its share of the slots, so that one that does not
// get on takes no room from the others: its blocks are dropped and counted. Tiers store in the
// order of offering; what one refuses is dropped.
//
// Invariants:
//   1. Slots in use and free ones together are at most staging_bytes.
//   2. A block waits in one slot at most.
//   3. No verb waits for a tier, WaitUntilStored and the destructor apart.
// Verbs are one thread's; dropped() any thread's.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "kv/tiers/tier_set.h"

namespace quire {

class TierWriters {
 public:
  using Clock = std::function<TierDeadline()>;

  TierWriters(std::span<const std::unique_ptr<Tier>> tiers, size_t slot_bytes,
              const TierSetOptions& options, Clock clock);
  // Drops what waits, and waits for the stores that have begun.
  ~TierWriters();
  TierWriters(const TierWriters&) = delete;
  TierWriters& operator=(const TierWriters&) = delete;

  // wants[tier]: who is to store it. False: dropped.
  bool Offer(const StoredBlock& block, std::span<const std::byte> payload,
             const std::vector<bool>& wants);
  // Whether a further block finds room for one of these.
  bool HasRoom(const std::vector<bool>& tiers) const;

  // Waits for one of these tiers to have nothing to store, and returns which. Nothing: the deadline
  // came first.
  std::optional<int> WaitUntilStored(const std::vector<bool>& tiers, TierDeadline deadline);
  // Blocks that this tier has yet to store.
  size_t num_waiting(int tier) const;
  // Blocks that a tier was to store and that found no room, or the tier down.
  int64_t dropped(int tier) const;

 private:
  struct KeyHash {
    size_t operator()(const BlockKey& key) const;
  };
  struct Slot {
    StoredBlock block{};
    std::unique_ptr<std::byte[]> copy{};  // [slot_bytes]
    size_t num_bytes = 0;
    int num_users = 0;  // queues that it is in
  };
  struct Lane {
    Tier* tier = nullptr;
    std::deque<Slot*> queue{};
    bool is_storing = false;
    int64_t dropped = 0;
    std::condition_variable work{};
    std::thread thread{};

    size_t num_waiting() const { return queue.size() + (is_storing ? 1 : 0); }
  };

  void Run(Lane& lane);
  bool HasFreeSlot() const { return !free_.empty() || slots_.size() < max_slots_; }

  const size_t slot_bytes_;
  const size_t max_slots_;
  const size_t share_;  // slots that a tier may use
  const TierDeadline::duration store_time_;
  const Clock clock_;

  // The writers run at a low priority, so whoever holds this may be kept from the processor:
  // nothing is copied, allocated at length or freed under it.
  mutable std::mutex mutex_;
  std::condition_variable stored_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> free_;
  std::unordered_map<BlockKey, Slot*, KeyHash> waiting_;
  bool is_stopping_ = false;
};

}  // namespace quire
