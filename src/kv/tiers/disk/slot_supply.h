// Which slot a record goes to, and how the files grow for it.
//
// Of its tenant's where that has used up its quota, else a free one, else one of longer files, else
// that of what is worth least. Files grow within the cap and the free space (DiskSpace), where the
// cap leaves no room in the place of other models' ones; files that could not grow are not asked to
// again for kNoGrowthS.
// Used by one thread at a time: the writer's.
#pragma once

#include <cstdint>
#include <optional>

#include "kv/tiers/disk/disk_model.h"
#include "kv/tiers/disk/slot_store.h"
#include "kv/tiers/tier.h"

namespace quire {

class SlotSupply {
 public:
  static constexpr double kNoGrowthS = 5;

  struct Supplied {
    std::optional<SlotStore::Found> slot{};        // reserved
    StoreOutcome refusal = StoreOutcome::kNoRoom;  // where there is none
    bool has_grown = false;
  };

  // tenant_max_bytes: of one tenant's records; 0 = no quota. Both outlive it.
  SlotSupply(const DiskModel& model, SlotStore& slots, uint64_t tenant_max_bytes)
      : model_(model), slots_(slots), tenant_max_bytes_(tenant_max_bytes) {}

  // For this entry, in these files.
  Supplied Take(const SlotStore::Files& files, const IndexEntry& entry, double now_s);

 private:
  bool Grow(const SlotStore::Files& files, double now_s);

  const DiskModel& model_;
  SlotStore& slots_;
  const uint64_t tenant_max_bytes_;
  double no_growth_until_s_ = 0;
};

}  // namespace quire
