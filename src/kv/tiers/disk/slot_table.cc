#include "kv/tiers/disk/slot_table.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"

namespace quire {

SlotTable::SlotTable(Options options) : options_(std::move(options)), order_(options_.by_tenant) {}

size_t SlotTable::Idx(int64_t slot) const {
  QUIRE_CHECK(slot >= 0 && slot < num_slots(), "slot {} of {}", slot, num_slots());
  return static_cast<size_t>(slot);
}

double SlotTable::Cost(int entry) const {
  const double cost = options_.cost ? options_.cost(entry) : 1;
  return std::isfinite(cost) && cost > 0 ? std::min(cost, 100.0) : 1;
}

void SlotTable::Fill(std::vector<std::optional<IndexEntry>> entries,
                     const std::vector<int64_t>& unwritten) {
  Clear();
  slots_.resize(entries.size());
  by_name_.reserve(entries.size());
  num_children_.reserve(entries.size());
  std::vector<int64_t> listed;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].has_value()) listed.push_back(static_cast<int64_t>(i));
  }
  // In the order of use the clock is made again; of one use the head of a prompt counts as last.
  std::sort(listed.begin(), listed.end(), [&](int64_t a, int64_t b) {
    const IndexEntry& left = *entries[static_cast<size_t>(a)];
    const IndexEntry& right = *entries[static_cast<size_t>(b)];
    if (left.last_use_s != right.last_use_s) return left.last_use_s < right.last_use_s;
    if (left.entry != right.entry) return left.entry > right.entry;
    return a < b;
  });
  for (const int64_t slot : listed) {
    const IndexEntry& entry = *entries[static_cast<size_t>(slot)];
    slots_[Idx(slot)].on_disk = true;
    if (by_name_.contains(entry.name)) {
      MarkUnwritten(slot);
    } else {
      ++clock_;
      Insert(slot, entry);
    }
  }
  for (const int64_t slot : unwritten) {
    slots_[Idx(slot)].on_disk = true;
    MarkUnwritten(slot);
  }
  for (int64_t slot = num_slots() - 1; slot >= 0; --slot) {
    if (slots_[Idx(slot)].state == State::kFree) free_.push_back(slot);
  }
}

void SlotTable::GoOnFrom(const SlotTable& before) {
  // Far enough for the versions given out by Fill.
  const uint64_t shift = before.next_version_;
  for (Slot& slot : slots_) slot.version += shift;
  next_version_ += shift;
}

void SlotTable::Clear() {
  slots_.clear();
  free_.clear();
  by_name_.clear();
  num_children_.clear();
  num_of_tenant_.clear();
  order_.Clear();
  unwritten_.clear();
}

void SlotTable::Resize(int64_t num_slots_wanted) {
  for (int64_t slot = num_slots_wanted; slot < num_slots(); ++slot) {
    if (slots_[Idx(slot)].state == State::kListed) Unlist(slot);
  }
  const int64_t before = num_slots();
  slots_.resize(static_cast<size_t>(num_slots_wanted));
  const auto is_gone = [&](int64_t slot) { return slot >= num_slots_wanted; };
  std::erase_if(free_, is_gone);
  std::erase_if(unwritten_, is_gone);
  // The first of them is taken first.
  for (int64_t slot = num_slots_wanted - 1; slot >= before; --slot) free_.push_back(slot);
}

int64_t SlotTable::num_slots_of(const TenantTag& tenant) const {
  const auto found = num_of_tenant_.find(tenant);
  return found == num_of_tenant_.end() ? 0 : found->second;
}

std::optional<SlotTable::Found> SlotTable::Find(const RecordName& name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  return Found{.slot = found->second, .version = slots_[Idx(found->second)].version};
}

std::optional<SlotTable::Found> SlotTable::Pin(const RecordName& name) {
  const auto found = Find(name);
  if (found.has_value()) ++slots_[Idx(found->slot)].num_readers;
  return found;
}

void SlotTable::Unpin(const Found& found) {
  if (found.slot >= num_slots() || slots_[Idx(found.slot)].version != found.version) return;
  Slot& slot = slots_[Idx(found.slot)];
  if (--slot.num_readers == 0 && slot.state == State::kDropped) Free(found.slot);
}

bool SlotTable::IsStill(const Found& found) const {
  if (found.slot >= num_slots()) return false;
  const Slot& slot = slots_[Idx(found.slot)];
  return slot.version == found.version && slot.state == State::kListed;
}

EvictionOrder::Place SlotTable::PlaceOf(int64_t slot) const {
  const Slot& it = slots_[Idx(slot)];
  return {.worth = it.worth, .entry = it.entry.entry, .slot = slot};
}

void SlotTable::SetEvictable(int64_t slot, bool is_evictable) {
  Slot& it = slots_[Idx(slot)];
  if (it.is_evictable == is_evictable) return;
  it.is_evictable = is_evictable;
  if (is_evictable) {
    order_.Add(PlaceOf(slot), it.entry.tenant);
  } else {
    order_.Remove(PlaceOf(slot), it.entry.tenant);
  }
}

void SlotTable::LinkParent(int64_t slot) {
  const RecordName& parent = slots_[Idx(slot)].entry.parent;
  if (parent == RecordName{} || ++num_children_[parent] > 1) return;
  if (const auto found = Find(parent)) SetEvictable(found->slot, false);
}

void SlotTable::UnlinkParent(int64_t slot) {
  const RecordName& parent = slots_[Idx(slot)].entry.parent;
  const auto count = num_children_.find(parent);
  if (count == num_children_.end() || --count->second > 0) return;
  num_children_.erase(count);
  if (const auto found = Find(parent)) SetEvictable(found->slot, true);
}

void SlotTable::Insert(int64_t slot, const IndexEntry& entry) {
  Slot& it = slots_[Idx(slot)];
  it.entry = entry;
  // Names that would make a chain bite its tail come from a damaged index alone.
  if (it.entry.parent == it.entry.name) it.entry.parent = {};
  it.state = State::kListed;
  it.version = next_version_++;
  it.num_readers = 0;
  it.worth = WorthOf(clock_, entry.hits + 1, Cost(entry.entry), num_slots());
  by_name_[entry.name] = slot;
  ++num_of_tenant_[entry.tenant];
  LinkParent(slot);
  SetEvictable(slot, !HasChildren(entry.name));
}

void SlotTable::Unlist(int64_t slot) {
  Slot& it = slots_[Idx(slot)];
  SetEvictable(slot, false);
  by_name_.erase(it.entry.name);
  const auto count = num_of_tenant_.find(it.entry.tenant);
  if (--count->second == 0) num_of_tenant_.erase(count);
  it.state = State::kDropped;
  UnlinkParent(slot);
}

void SlotTable::Free(int64_t slot) {
  Slot& it = slots_[Idx(slot)];
  it.state = State::kFree;
  it.version = next_version_++;
  it.num_readers = 0;
  free_.push_back(slot);
}

void SlotTable::Use(int64_t slot, double now_s, const RecordName* parent) {
  Slot& it = slots_[Idx(slot)];
  QUIRE_CHECK(it.state == State::kListed, "slot {} is not listed", slot);
  const bool was_evictable = it.is_evictable;
  SetEvictable(slot, false);
  if (parent != nullptr && it.entry.parent == RecordName{} && *parent != it.entry.name) {
    it.entry.parent = *parent;
    LinkParent(slot);
  }
  it.entry.last_use_s = std::isfinite(now_s) && now_s > 0 ? now_s : 0;
  if (it.entry.hits < UINT32_MAX - 1) ++it.entry.hits;
  it.worth = WorthOf(++clock_, it.entry.hits + 1, Cost(it.entry.entry), num_slots());
  SetEvictable(slot, was_evictable);
  MarkUnwritten(slot);
}

void SlotTable::Drop(int64_t slot) {
  Unlist(slot);
  MarkUnwritten(slot);
  if (slots_[Idx(slot)].num_readers == 0) Free(slot);
}

std::optional<SlotTable::Found> SlotTable::TakeFree() {
  if (free_.empty()) return std::nullopt;
  const int64_t slot = free_.back();
  free_.pop_back();
  Slot& it = slots_[Idx(slot)];
  it.state = State::kReserved;
  it.version = next_version_++;
  return Found{.slot = slot, .version = it.version};
}

std::optional<SlotTable::Found> SlotTable::TakeWorst(const IndexEntry& candidate,
                                                     const TenantTag* tenant) {
  ++clock_;
  const double worth = WorthOf(clock_, candidate.hits + 1, Cost(candidate.entry), num_slots());
  const auto place = order_.First(tenant, [&](const EvictionOrder::Place& it) {
    const Slot& slot = slots_[Idx(it.slot)];
    return slot.num_readers == 0 && slot.entry.name != candidate.parent;
  });
  if (!place.has_value() || place->worth > worth) return std::nullopt;
  Drop(place->slot);
  return TakeFree();
}

bool SlotTable::List(const Found& reserved, const IndexEntry& entry) {
  if (reserved.slot >= num_slots()) return false;
  Slot& it = slots_[Idx(reserved.slot)];
  if (it.state != State::kReserved || it.version != reserved.version) return false;
  if (by_name_.contains(entry.name)) {
    GiveBack(reserved);
    return false;
  }
  ++clock_;
  Insert(reserved.slot, entry);
  return true;
}

void SlotTable::GiveBack(const Found& reserved) {
  if (reserved.slot >= num_slots()) return;
  const Slot& it = slots_[Idx(reserved.slot)];
  if (it.state == State::kReserved && it.version == reserved.version) Free(reserved.slot);
}

void SlotTable::SetWritten(int64_t slot, bool is_listed) {
  if (slot < num_slots()) slots_[Idx(slot)].on_disk = is_listed;
}

void SlotTable::MarkUnwritten(int64_t slot) {
  Slot& it = slots_[Idx(slot)];
  if (it.unwritten) return;
  it.unwritten = true;
  unwritten_.push_back(slot);
}

std::vector<int64_t> SlotTable::TakeUnwritten(size_t max) {
  const size_t num = std::min(max, unwritten_.size());
  std::vector<int64_t> taken(unwritten_.end() - static_cast<ptrdiff_t>(num), unwritten_.end());
  unwritten_.resize(unwritten_.size() - num);
  for (const int64_t slot : taken) slots_[Idx(slot)].unwritten = false;
  return taken;
}

std::optional<IndexEntry> SlotTable::ListedEntry(int64_t slot) const {
  const Slot& it = slots_[Idx(slot)];
  return it.state == State::kListed ? std::optional(it.entry) : std::nullopt;
}

std::vector<int64_t> SlotTable::SomeListed(size_t max) const {
  std::vector<int64_t> some;
  const int64_t step = std::max<int64_t>(1, num_slots() / static_cast<int64_t>(2 * max));
  for (int64_t slot = 0; slot < num_slots() && some.size() < max; slot += step) {
    if (slots_[Idx(slot)].state == State::kListed) some.push_back(slot);
  }
  return some;
}

std::vector<int64_t> SlotTable::ListedSlots() const {
  std::vector<int64_t> listed;
  for (int64_t slot = 0; slot < num_slots(); ++slot) {
    if (slots_[Idx(slot)].state == State::kListed) listed.push_back(slot);
  }
  return listed;
}

void SlotTable::CheckInvariants() const {
  std::unordered_map<RecordName, int32_t, NameHash> num_children;
  std::unordered_map<TenantTag, int64_t, TagHash> num_of_tenant;
  int64_t num_listed_slots = 0;
  for (int64_t i = 0; i < num_slots(); ++i) {
    const Slot& slot = slots_[Idx(i)];
    QUIRE_CHECK(slot.state != State::kFree || slot.num_readers == 0, "slot {} is read", i);
    if (slot.state != State::kListed) continue;
    ++num_listed_slots;
    ++num_of_tenant[slot.entry.tenant];
    if (slot.entry.parent != RecordName{}) ++num_children[slot.entry.parent];
    const auto found = Find(slot.entry.name);
    QUIRE_CHECK(found.has_value() && found->slot == i, "slot {} is not found", i);
  }
  QUIRE_CHECK(num_listed_slots == num_listed(), "{} listed, {} names", num_listed_slots,
              num_listed());
  QUIRE_CHECK(num_children == num_children_, "children");
  QUIRE_CHECK(num_of_tenant == num_of_tenant_, "tenants");
  size_t num_evictable = 0;
  for (int64_t i = 0; i < num_slots(); ++i) {
    const Slot& slot = slots_[Idx(i)];
    const bool should = slot.state == State::kListed && !num_children.contains(slot.entry.name);
    QUIRE_CHECK(slot.is_evictable == should, "slot {}", i);
    num_evictable += should ? 1 : 0;
  }
  QUIRE_CHECK(order_.size() == num_evictable, "{} in the order", order_.size());
  const std::set<int64_t> free(free_.begin(), free_.end());
  QUIRE_CHECK(free.size() == free_.size(), "a slot is free twice");
  for (const int64_t slot : free) {
    QUIRE_CHECK(slots_[Idx(slot)].state == State::kFree, "slot {} is not free", slot);
  }
}

}  // namespace quire
