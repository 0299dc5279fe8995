#include "kv/tiers/disk/disk_space.h"

#include <algorithm>
#include <map>

#include "kv/tiers/disk/slot_files.h"

namespace quire {

int64_t DiskSpace::SlotsOfExtent(uint64_t slot_bytes) const {
  const int64_t wanted = std::max(kExtentSlots, static_cast<int64_t>(kExtentBytes / slot_bytes));
  const auto part = static_cast<int64_t>(max_bytes_ / kCapParts / slot_bytes);
  return std::max<int64_t>(1, std::min(wanted, part));
}

uint64_t DiskSpace::Room(const DiskDirectory& directory, Limit limit) const {
  const uint64_t used = DiskDirectory::BytesOf(directory.List()) + kMargin;
  uint64_t room = max_bytes_ > used ? max_bytes_ - used : 0;
  if (limit == Limit::kCapAndFree) {
    const uint64_t free = directory.FreeBytes().value_or(0);
    room = std::min(room, free > min_free_bytes_ ? free - min_free_bytes_ : 0);
  }
  return room;
}

bool DiskSpace::IsOver(const DiskDirectory& directory) const {
  return DiskDirectory::BytesOf(directory.List()) > max_bytes_;
}

uint64_t DiskSpace::MaxSlabBytes(const DiskDirectory& directory, const Digest& fingerprint,
                                 uint64_t slot_bytes) const {
  uint64_t others = kMargin + kIndexHeaderBytes;
  for (const DiskDirectory::File& file : directory.List()) {
    const bool is_own = DiskDirectory::SlabOf(file.name) == fingerprint ||
                        DiskDirectory::IndexOf(file.name) == fingerprint;
    if (!is_own) others += file.bytes;
  }
  if (others >= max_bytes_) return 0;
  return (max_bytes_ - others) / (slot_bytes + kIndexEntryBytes) * slot_bytes;
}

bool DiskSpace::TakeFromOthers(const DiskDirectory& directory, const Digest& own,
                               uint64_t num_bytes) const {
  std::map<Digest, double> used_at;
  for (const DiskDirectory::File& file : directory.List()) {
    auto fingerprint = DiskDirectory::SlabOf(file.name);
    if (!fingerprint.has_value()) fingerprint = DiskDirectory::IndexOf(file.name);
    if (!fingerprint.has_value() || *fingerprint == own) continue;
    double& time = used_at[*fingerprint];
    time = std::max(time, file.modified_s);
  }
  if (used_at.empty()) return false;
  const auto oldest =
      std::min_element(used_at.begin(), used_at.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return SlotFiles::GiveUp(ops_, directory, oldest->first, num_bytes) == 0;
}

}  // namespace quire
