#include "kv/tiers/fast_motion/tiered_cache.h"

#include <algorithm>
#include <cstring>
#include <ranges>

#include "base/check.h"
#include "kv/identity.h"

namespace quire::testing {
namespace {

TierDeadline InAnHour() { return std::chrono::steady_clock::now() + std::chrono::hours(1); }

std::vector<StoredBlock> NamesOf(const Trace& trace, const StoredModel& model) {
  std::vector<StoredBlock> names;
  names.reserve(trace.blocks.size());
  const Digest root = RootOf(model.fingerprint, "");
  for (size_t i = 0; i < trace.blocks.size(); ++i) {
    const TraceBlock& block = trace.blocks[i];
    StoredBlock name{.root = root, .entry = block.entry};
    name.parent = block.parent < 0 ? root : names[static_cast<size_t>(block.parent)].id;
    for (int slot = 0; slot < kBlockSlots; ++slot) {
      name.tokens[static_cast<size_t>(slot)] = static_cast<int32_t>(i) + slot;
    }
    name.id = ChildOf(name.parent, name.tokens);
    names.push_back(name);
  }
  return names;
}

}  // namespace

TieredCache::TieredCache(const Trace& trace, const StoredModel& model, Tier& tier, double* now_s,
                         const TieredCacheOptions& options)
    : trace_(trace),
      tier_(tier),
      now_s_(now_s),
      options_(options),
      payload_bytes_(model.group_bytes.front()),
      names_(NamesOf(trace, model)),
      num_stores_(trace.blocks.size()),
      payload_(payload_bytes_) {}

void TieredCache::RunAll() {
  const double start_s = *now_s_;
  for (const TracePrompt& prompt : trace_.prompts) {
    const double at_s = start_s + prompt.at_s;
    if (at_s > *now_s_) {
      WriteWhileIdle(at_s);
      *now_s_ = at_s;
    }
    Run(prompt);
  }
}

void TieredCache::Run(const TracePrompt& prompt) {
  const std::vector<int>& blocks = prompt.blocks;
  QUIRE_CHECK(static_cast<int>(blocks.size()) <= options_.num_memory_blocks, "{} blocks",
              blocks.size());
  const auto missing =
      std::ranges::find_if_not(blocks, [&](int block) { return in_memory_.contains(block); });
  const auto num_memory = static_cast<size_t>(missing - blocks.begin());
  for (size_t i = 0; i < num_memory; ++i) Hold(blocks[i]);

  const size_t num_loaded = Load(std::span(blocks).subspan(num_memory));
  const size_t num_found = num_memory + num_loaded;
  counters_.memory_hits += static_cast<int64_t>(num_memory);
  counters_.tier_hits += static_cast<int64_t>(num_loaded);
  counters_.computed += static_cast<int64_t>(blocks.size() - num_found);
  for (size_t i = num_memory; i < blocks.size(); ++i) Hold(blocks[i]);
  *now_s_ += static_cast<double>(blocks.size() - num_found) * options_.block_s;

  for (size_t i = 0; i < num_found; ++i) OfferFresh(blocks[i], &counters_.stored_second_use);
  for (const int block : blocks | std::views::reverse) {
    Place& place = in_memory_.at(block);
    place.is_held = false;
    place.it = order_.insert(order_.end(), block);
  }
}

void TieredCache::WriteWhileIdle(double until_s) {
  const double from_s = *now_s_ + options_.idle_s;
  if (from_s >= until_s) return;
  auto left = static_cast<int64_t>((until_s - from_s) * options_.idle_stores_per_s);
  *now_s_ = from_s;
  for (const int block : order_) {
    if (left == 0) return;
    if (!in_memory_.at(block).is_fresh) continue;
    OfferFresh(block, &counters_.stored_idle);
    --left;
  }
}

size_t TieredCache::Load(std::span<const int> blocks) {
  const auto end = std::ranges::find_if_not(
      blocks, [&](int block) { return tier_.MayHold(names_[static_cast<size_t>(block)].key()); });
  const auto num_there = static_cast<size_t>(end - blocks.begin());
  if (num_there == 0) return 0;
  std::vector<std::byte> payloads(num_there * payload_bytes_);
  std::vector<BlockLoad> loads;
  for (size_t i = 0; i < num_there; ++i) {
    loads.push_back({.block = names_[static_cast<size_t>(blocks[i])],
                     .payload = std::span(payloads).subspan(i * payload_bytes_, payload_bytes_)});
  }
  std::vector<bool> is_loaded(num_there);
  tier_.Load(
      loads, InAnHour(), [] { return false; },
      [&](size_t idx, RecordFault fault) {
        is_loaded[idx] = fault == RecordFault::kNone;
        if (fault != RecordFault::kNone) {
          ++counters_.failed_loads;
          return;
        }
        FillPayload(blocks[idx], payload_);
        if (!std::ranges::equal(payload_, loads[idx].payload)) ++counters_.wrong_payloads;
      });
  return static_cast<size_t>(std::ranges::find(is_loaded, false) - is_loaded.begin());
}

void TieredCache::Hold(int block) {
  if (const auto it = in_memory_.find(block); it != in_memory_.end()) {
    if (!it->second.is_held) order_.erase(it->second.it);
    it->second.is_held = true;
    return;
  }
  if (static_cast<int>(in_memory_.size()) == options_.num_memory_blocks) GiveWay();
  in_memory_[block] = {.is_held = true};
}

void TieredCache::GiveWay() {
  const int block = order_.front();
  OfferFresh(block, &counters_.stored_evicted);
  order_.pop_front();
  in_memory_.erase(block);
  ++counters_.memory_evictions;
}

void TieredCache::OfferFresh(int block, int64_t* stored) {
  Place& place = in_memory_.at(block);
  if (!place.is_fresh) return;
  const StoredBlock& name = names_[static_cast<size_t>(block)];
  const BlockKey key = name.key();
  if (tier_.MayHold(key)) {
    place.is_fresh = false;
    tier_.Touch(std::span(&key, 1));
    return;
  }
  FillPayload(block, payload_);
  if (tier_.Store(name, payload_, InAnHour()) != StoreOutcome::kStored) {
    ++counters_.refused;
    return;
  }
  place.is_fresh = false;
  ++*stored;
  uint8_t& count = num_stores_[static_cast<size_t>(block)];
  if (count < 255) ++count;
  counters_.max_stores = std::max<int64_t>(counters_.max_stores, count);
}

void TieredCache::FillPayload(int block, std::span<std::byte> payload) const {
  const Digest& id = names_[static_cast<size_t>(block)].id;
  for (size_t i = 0; i < payload.size(); ++i) {
    payload[i] = static_cast<std::byte>(id[i % id.size()] + i / id.size());
  }
}

}  // namespace quire::testing
