#include "kv/tiers/disk/disk_speed.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

template <typename Read>
std::optional<TierSpeed> DiskSpeedTrial::Time(uint64_t num_bytes, const Read& read) {
  std::vector<std::byte> record(static_cast<size_t>(num_bytes));
  const std::span<std::byte> whole(record);
  const auto head = whole.first(std::min<size_t>(whole.size(), kSlotAlignment));
  auto start = Clock::now();
  if (!read(head)) return std::nullopt;
  const double latency_ms = MsSince(start);
  start = Clock::now();
  // A record that does not prove itself takes as long to find out; who loads it will tell.
  if (!read(whole)) return std::nullopt;
  (void)VerifyRecord(record, nullptr, SealDemand::kNone);
  const double rest_ms = std::max(MsSince(start), 1e-3);
  return TierSpeed{.latency_ms = latency_ms,
                   .bytes_per_ms = static_cast<double>(num_bytes) / rest_ms};
}

std::optional<TierSpeed> DiskSpeedTrial::OfSlots(const SlotFiles& files,
                                                 std::span<const int64_t> slots) {
  std::vector<TierSpeed> speeds;
  for (const int64_t slot : slots) {
    if (Clock::now() >= deadline_) break;
    const auto speed = Time(files.slot_bytes(), [&](std::span<std::byte> bytes) {
      const iovec part = PartOf(bytes);
      return files.Read(slot, {&part, 1}) == RecordFault::kNone;
    });
    if (speed.has_value()) speeds.push_back(*speed);
  }
  if (speeds.empty()) return std::nullopt;
  const auto median = [&](double TierSpeed::* what) {
    std::vector<double> values;
    for (const TierSpeed& speed : speeds) values.push_back(speed.*what);
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  return TierSpeed{.latency_ms = median(&TierSpeed::latency_ms),
                   .bytes_per_ms = median(&TierSpeed::bytes_per_ms)};
}

std::optional<TierSpeed> DiskSpeedTrial::OfDirectory(const std::filesystem::path& directory,
                                                     const RecordCodec& codec) {
  const OpenFile file(ops_, ops_.Open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file.is_open()) return std::nullopt;
  const auto& group_bytes = codec.model().group_bytes;
  const auto largest = std::max_element(group_bytes.begin(), group_bytes.end());
  if (largest == group_bytes.end()) return std::nullopt;
  const std::vector<std::byte> payload(*largest);
  StoredBlock block = {.group = static_cast<int>(largest - group_bytes.begin())};
  block.id = ChildOf(block.parent, block.tokens);
  std::vector<std::byte> record;
  codec.Encode(block, payload, Packing::kNone, record);
  const iovec whole = PartOf(std::span<const std::byte>(record));
  if (WriteFully(ops_, file.fd(), {&whole, 1}, 0) != 0 || ops_.Sync(file.fd()) != 0) {
    return std::nullopt;
  }
  // From the disk, not from memory: what is loaded later was mostly not used lately.
  (void)::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  return Time(record.size(), [&](std::span<std::byte> bytes) {
    const iovec part = PartOf(bytes);
    return ReadFully(ops_, file.fd(), {&part, 1}, 0) == 0;
  });
}

}  // namespace quire
