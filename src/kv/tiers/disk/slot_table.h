// What the slots of one slab hold, in memory: by name, by what gives way first, by tenant.
//
// A slot is free; reserved by who writes it; listed; or dropped: no longer listed, but still being
// read. A slot has a version that changes with each turn, so that who read it can tell whether it
// is still the one.
//
// Invariants (CheckInvariants):
//   1. A name is listed once at most, and Find gives its slot.
//   2. A slot in the eviction order is listed and no listed slot has its name as its parent; every
//      such slot is in it.
//   3. A tenant's count is that of its listed slots.
//   4. No free slot is being read.
// Does no I/O: what the index says otherwise is remembered as unwritten. Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kv/tiers/disk/eviction_order.h"
#include "kv/tiers/disk/index_format.h"

namespace quire {

class SlotTable {
 public:
  struct Options {
    bool by_tenant = false;                   // there are quotas
    std::function<double(int entry)> cost{};  // empty = all the same
  };
  // A listed slot as it was found.
  struct Found {
    int64_t slot = -1;
    uint64_t version = 0;

    friend bool operator==(const Found&, const Found&) = default;
  };

  explicit SlotTable(Options options);

  // Takes over what the index says (SlotContents): of a name that is there twice, one.
  void Fill(std::vector<std::optional<IndexEntry>> entries, const std::vector<int64_t>& unwritten);
  // Versions go on from those of the table before it.
  void GoOnFrom(const SlotTable& before);
  // Forgets everything; versions go on.
  void Clear();
  // More slots are free; or fewer: what the last ones held is gone.
  void Resize(int64_t num_slots);

  int64_t num_slots() const { return static_cast<int64_t>(slots_.size()); }
  int64_t num_listed() const { return static_cast<int64_t>(by_name_.size()); }
  int64_t num_slots_of(const TenantTag& tenant) const;

  bool Holds(const RecordName& name) const { return by_name_.contains(name); }
  std::optional<Found> Find(const RecordName& name) const;
  // Slots in use between these are not handed out.
  std::optional<Found> Pin(const RecordName& name);
  void Unpin(const Found& found);
  const IndexEntry& entry(int64_t slot) const { return slots_[Idx(slot)].entry; }
  // Whether the slot still is what was found.
  bool IsStill(const Found& found) const;

  // The block was used. parent: where the caller knows it.
  void Use(int64_t slot, double now_s, const RecordName* parent);
  // No longer listed; the slot is free once nobody reads it.
  void Drop(int64_t slot);

  // A free slot, reserved.
  std::optional<Found> TakeFree();
  // The slot of what is worth least, and less than `candidate` would be: dropped and reserved. Only
  // of `tenant`'s where given. Never the candidate's parent.
  std::optional<Found> TakeWorst(const IndexEntry& candidate, const TenantTag* tenant);
  // A reserved slot becomes listed; false where the table has changed under it.
  bool List(const Found& reserved, const IndexEntry& entry);
  void GiveBack(const Found& reserved);

  // Whether the index on the disk may list something in this slot.
  bool is_listed_on_disk(int64_t slot) const { return slots_[Idx(slot)].on_disk; }
  void SetWritten(int64_t slot, bool is_listed);
  // Slots whose entry on the disk is another, at most so many; they count as written from here on.
  std::vector<int64_t> TakeUnwritten(size_t max);
  void MarkUnwritten(int64_t slot);
  // What the index ought to say of the slot.
  std::optional<IndexEntry> ListedEntry(int64_t slot) const;
  std::vector<int64_t> ListedSlots() const;
  // At most so many, from all over the slab.
  std::vector<int64_t> SomeListed(size_t max) const;

  void CheckInvariants() const;

 private:
  enum class State : uint8_t { kFree, kReserved, kListed, kDropped };
  struct Slot {
    IndexEntry entry{};
    double worth = 0;
    uint64_t version = 0;
    int32_t num_readers = 0;
    State state = State::kFree;
    bool on_disk = false;    // the index may list something
    bool unwritten = false;  // is in unwritten_
    bool is_evictable = false;
  };

  size_t Idx(int64_t slot) const;
  double Cost(int entry) const;
  bool HasChildren(const RecordName& name) const { return num_children_.contains(name); }
  EvictionOrder::Place PlaceOf(int64_t slot) const;
  void SetEvictable(int64_t slot, bool is_evictable);
  void LinkParent(int64_t slot);
  void UnlinkParent(int64_t slot);
  void Insert(int64_t slot, const IndexEntry& entry);
  void Unlist(int64_t slot);
  void Free(int64_t slot);

  Options options_;
  std::vector<Slot> slots_;
  std::vector<int64_t> free_;
  std::unordered_map<RecordName, int64_t, NameHash> by_name_;
  std::unordered_map<RecordName, int32_t, NameHash> num_children_;  // by the parent's name
  std::unordered_map<TenantTag, int64_t, TagHash> num_of_tenant_;
  EvictionOrder order_;
  std::vector<int64_t> unwritten_;
  uint64_t clock_ = 0;
  uint64_t next_version_ = 1;
};

}  // namespace quire
