#include "kv/tiers/fast_motion/fast_motion.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "kv/tiers/disk/disk_tier.h"
#include "kv/tiers/fast_motion/lru_oracle.h"
#include "support/scratch_directory.h"

namespace quire::testing {
namespace {

constexpr size_t kPayloadBytes = 256;
constexpr uint64_t kSlotBytes = 4096;       // of a record of so small a payload
constexpr uint64_t kIndexEntryBytes = 160;  // at most
constexpr uint64_t kFileHeadBytes = 4 * 4096;
constexpr double kStartS = 1'800'000'000;  // Unix time

StoredModel SmallModel() {
  StoredModel model;
  model.ingredients.numerics_version = 1;
  model.fingerprint = FingerprintOf(model.ingredients);
  model.group_bytes = {kPayloadBytes};
  return model;
}

}  // namespace

FastMotionResult MeasureFastMotion(const Trace& trace, int64_t num_blocks) {
  const auto longest = std::ranges::max_element(
      trace.prompts, {}, [](const TracePrompt& prompt) { return prompt.blocks.size(); });
  FastMotionResult result;
  result.num_memory_blocks =
      std::max(num_blocks / 10, static_cast<int64_t>(longest->blocks.size()));
  const auto disk_blocks = static_cast<uint64_t>(num_blocks - result.num_memory_blocks);
  result.disk_cap_bytes = disk_blocks * (kSlotBytes + kIndexEntryBytes) + kFileHeadBytes;

  double now_s = kStartS;
  const ScratchDirectory scratch;
  const StoredModel model = SmallModel();
  const auto codec = std::make_shared<const RecordCodec>(model, nullptr, false);
  Result<std::unique_ptr<Tier>> disk = OpenDiskTier(codec, {.directory = scratch.path() / "kv",
                                                            .max_bytes = result.disk_cap_bytes,
                                                            .min_free_bytes = 0,
                                                            .now_s = [&now_s] { return now_s; }});
  QUIRE_CHECK(disk.ok(), "{}", disk.error().message);
  TieredCache cache(trace, model, **disk, &now_s,
                    {.num_memory_blocks = static_cast<int>(result.num_memory_blocks)});
  cache.RunAll();

  const TierStatus status = (*disk)->status();
  result.counters = cache.counters();
  result.num_disk_blocks = status.num_records;
  result.max_disk_bytes = status.bytes;
  result.disk_evictions = status.counters.evictions;
  result.record_bytes_written = static_cast<uint64_t>(status.counters.bytes_stored);
  result.hit_rate =
      static_cast<double>(result.counters.hits()) / static_cast<double>(trace.num_uses);
  result.lru_hit_rate = BestLruHitRate(trace, result.num_memory_blocks + result.num_disk_blocks);
  return result;
}

std::string FastMotionResult::Describe() const {
  const double uses = static_cast<double>(counters.hits() + counters.computed);
  return fmt::format(
      "{:6} + {:6} blocks: hits {:5.2f} % (memory {:5.2f}, disk {:5.2f}), LRU {:5.2f} %; "
      "{} computed, {} stored = {:.3f} a computed block ({} evicted, {} second use, {} idle; {} "
      "refused; one block at most {} times), {:.1f} MiB of records; evictions {} memory, {} disk",
      num_memory_blocks, num_disk_blocks, 100 * hit_rate,
      100 * static_cast<double>(counters.memory_hits) / uses,
      100 * static_cast<double>(counters.tier_hits) / uses, 100 * lru_hit_rate, counters.computed,
      counters.stored(), stored_per_computed(), counters.stored_evicted, counters.stored_second_use,
      counters.stored_idle, counters.refused, counters.max_stores,
      static_cast<double>(record_bytes_written) / (1 << 20), counters.memory_evictions,
      disk_evictions);
}

}  // namespace quire::testing
