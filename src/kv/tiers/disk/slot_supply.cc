#include "kv/tiers/disk/slot_supply.h"

#include <algorithm>
#include <cerrno>

namespace quire {

SlotSupply::Supplied SlotSupply::Take(const SlotStore::Files& files, const IndexEntry& entry,
                                      double now_s) {
  if (tenant_max_bytes_ > 0) {
    const uint64_t quota = tenant_max_bytes_ / files->slot_bytes();
    if (static_cast<uint64_t>(slots_.NumSlotsOf(entry.tenant)) >= quota) {
      return {.slot = slots_.TakeWorst(files, entry, &entry.tenant),
              .refusal = StoreOutcome::kQuota};
    }
  }
  if (const auto slot = slots_.TakeFree(files)) return {.slot = slot};
  const bool has_grown = Grow(files, now_s);
  return {.slot = has_grown ? slots_.TakeFree(files) : slots_.TakeWorst(files, entry, nullptr),
          .has_grown = has_grown};
}

// Whether there are more slots.
bool SlotSupply::Grow(const SlotStore::Files& files, double now_s) {
  // Files that are gone need not grow.
  if (!slots_.NumSlots(files).has_value()) return false;
  if (now_s < no_growth_until_s_ && now_s >= no_growth_until_s_ - kNoGrowthS) return false;
  no_growth_until_s_ = now_s + kNoGrowthS;
  const uint64_t slot_bytes = files->slot_bytes();
  const DiskSpace& space = model_.space();
  const int64_t extent = space.SlotsOfExtent(slot_bytes);
  const uint64_t least = slot_bytes + kIndexEntryBytes;
  while (space.Room(model_.directory(), DiskSpace::Limit::kCapAlone) < least) {
    const uint64_t wanted = static_cast<uint64_t>(extent) * least;
    if (!space.TakeFromOthers(model_.directory(), model_.fingerprint(), wanted)) return false;
  }
  const uint64_t room = space.Room(model_.directory(), DiskSpace::Limit::kCapAndFree);
  const int64_t added = std::min(extent, static_cast<int64_t>(room / least));
  const std::optional<int64_t> before = slots_.NumSlots(files);
  if (!before.has_value() || added == 0 || *before + added > kMaxSlots) return false;
  const int64_t after = *before + added;
  int fault = files->Grow(*before, after);
  if (fault == 0 && space.IsOver(model_.directory())) {
    // The file system takes more beside the files than was left for it.
    (void)files->Shrink(*before);
    fault = ENOSPC;
  }
  if (fault != 0) {
    slots_.Count(RecordFault::kIo);
    return false;
  }
  no_growth_until_s_ = 0;
  return slots_.Extend(files, *before, after);
}

}  // namespace quire
