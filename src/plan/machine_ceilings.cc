#include "plan/machine_ceilings.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>

#include "base/available_memory.h"
#include "base/huge_buffer.h"

namespace quire {
namespace {

std::string WordOf(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// "32768K" as bytes; 0 for anything else.
uint64_t BytesOf(const std::string& size) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), number);
  if (error != std::errc() || number > uint64_t{1} << 30) return 0;
  const std::string_view unit(end, size.data() + size.size() - end);
  if (unit == "K") return number << 10;
  if (unit == "M") return number << 20;
  return unit.empty() ? number : 0;
}

// Of the first processor; the C library's figure, which under some hypervisors is of the whole
// host, where the system has none.
uint64_t SizeOfLevel(std::string_view level, int sysconf_name) {
  constexpr int kMaxCaches = 8;
  for (int i = 0; i < kMaxCaches; ++i) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    if (WordOf(folder + "level") != level || WordOf(folder + "type") == "Instruction") continue;
    if (const uint64_t bytes = BytesOf(WordOf(folder + "size")); bytes > 0) return bytes;
  }
  const long bytes = ::sysconf(sysconf_name);
  return bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
}

}  // namespace

CacheSizes CacheSizes::OfThisMachine() {
  return {.l1_bytes = SizeOfLevel("1", _SC_LEVEL1_DCACHE_SIZE),
          .l2_bytes = SizeOfLevel("2", _SC_LEVEL2_CACHE_SIZE),
          .l3_bytes = SizeOfLevel("3", _SC_LEVEL3_CACHE_SIZE)};
}

MachineLimits MachineCeilings::limits() const {
  return {.bytes_per_second = memory.empty() ? 0 : memory.back().bytes_per_second,
          .int8_ops_per_second = peaks.int8_ops_per_second,
          .f32_ops_per_second = peaks.f32_ops_per_second};
}

std::vector<MemoryCeiling> LevelsToMeasure(const CacheSizes& caches, int num_threads,
                                           uint64_t most_bytes) {
  const auto threads = static_cast<uint64_t>(std::max(1, num_threads));
  const uint64_t room = std::min(most_bytes, AvailableMemory() / 2);
  std::vector<MemoryCeiling> levels;
  uint64_t below = 0;  // bytes of the levels before, which a set has to exceed
  const auto add = [&](std::string_view name, uint64_t level_bytes, uint64_t set_bytes) {
    if (set_bytes > 2 * below && set_bytes <= room) {
      levels.push_back({.name = name, .level_bytes = level_bytes, .set_bytes = set_bytes});
    }
    below = std::max(below, level_bytes);
  };
  add("L1", threads * caches.l1_bytes, threads * caches.l1_bytes / 2);
  add("L2", threads * caches.l2_bytes, threads * caches.l2_bytes / 2);
  add("L3", caches.l3_bytes, caches.l3_bytes / 2);
  // Four times the last cache; where its size is not known, more than any has.
  const uint64_t memory = below > 0 ? 4 * below : uint64_t{1} << 30;
  add("memory", 0, std::max<uint64_t>(memory, uint64_t{64} << 20));
  return levels;
}

Result<MachineCeilings> MeasureCeilings(ThreadPool& threads, std::string_view kernels,
                                        std::span<const std::byte> weights,
                                        const CeilingOptions& options) {
  MachineCeilings ceilings{.kernels = std::string(kernels), .num_threads = threads.num_threads()};
  ceilings.memory =
      LevelsToMeasure(CacheSizes::OfThisMachine(), ceilings.num_threads, options.most_bytes);
  uint64_t largest = 0;
  for (const MemoryCeiling& level : ceilings.memory) largest = std::max(largest, level.set_bytes);
  HugeBuffer buffer;
  if (largest > 0) {
    QUIRE_ASSIGN_OR_RETURN(buffer, HugeBuffer::Allocate(largest));
    TouchPages(threads, buffer.bytes().first(largest));
  }
  if (!weights.empty()) {
    ceilings.memory.push_back({.name = "weights", .set_bytes = weights.size()});
  }
  // In turn: what drifts meets every level.
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    for (MemoryCeiling& level : ceilings.memory) {
      if (options.go_on && !options.go_on()) {
        return MakeError(ErrorCode::kInterrupted, "interrupted");
      }
      const std::span<const std::byte> bytes =
          level.name == "weights" ? weights : buffer.bytes().first(level.set_bytes);
      level.bytes_per_second = std::max(level.bytes_per_second, SettledReadRate(threads, bytes));
    }
  }
  ceilings.peaks = MeasureArithmeticPeaks(threads, kernels);
  return ceilings;
}

}  // namespace quire
