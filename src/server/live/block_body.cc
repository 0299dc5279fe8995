#include "server/live/block_body.h"

#include <algorithm>
#include <cmath>

#include "kv/tiers/tier_set.h"
#include "server/openai/json_writer.h"
#include "server/routes/quire_routes.h"

namespace quire {
namespace {

char LetterOf(BlockState state) {
  switch (state) {
    case BlockState::kUsed:
      return 'u';
    case BlockState::kCached:
      return 'c';
    case BlockState::kFree:
      return 'f';
  }
  return '?';
}

// Bit i: tier i is known to hold a copy of the block.
int64_t TiersOf(const MappedBlock& block, const TierSet* tiers) {
  if (tiers == nullptr || !block.is_whole()) return 0;
  int64_t held = 0;
  for (int i = 0; i < std::min(tiers->num_tiers(), 32); ++i) {
    const bool holds = tiers->tier(i).MayHold({.id = block.id, .group = block.group});
    held |= int64_t{holds} << i;
  }
  return held;
}

template <typename ValueOf>
void WriteColumn(std::string_view name, size_t count, ValueOf&& value_of, JsonWriter& json) {
  json.Key(name);
  json.BeginArray();
  for (size_t i = 0; i < count; ++i) json.Int(value_of(i));
  json.EndArray();
}

}  // namespace

OwnedBlocks MapOwnedBlocks(const Engine& engine) {
  OwnedBlocks owned{.map = MapBlocks(engine.cache())};
  owned.requests.resize(owned.map.blocks.size());
  auto sequences = engine.sequences();
  std::ranges::sort(sequences);
  for (const auto& [sequence, request] : sequences) {
    if (!engine.batch().is_running(sequence)) continue;
    for (int group = 0; group < engine.cache().layout().num_groups(); ++group) {
      for (const BlockId block : engine.batch().table(sequence, group)) {
        if (block == kNoBlock) continue;
        RequestId& owner = owned.requests[static_cast<size_t>(block)];
        if (owner == 0) owner = request;
      }
    }
  }
  return owned;
}

std::string BlockBody(const OwnedBlocks& owned, const KvLayout& layout, double now_ms,
                      const TierSet* tiers) {
  const std::vector<MappedBlock>& blocks = owned.map.blocks;
  std::string body;
  JsonWriter json(body);
  json.BeginObject();
  json.Key("version");
  json.Int(kQuireVersion);
  json.Key("block_bytes");
  json.Int(static_cast<int64_t>(layout.block_bytes));
  json.Key("block_slots");
  json.Int(kBlockSlots);
  json.Key("num_blocks");
  json.Int(owned.map.num_blocks);
  json.Key("now_ms");
  json.Number(std::round(now_ms));
  json.Key("groups");
  json.BeginArray();
  for (const KvGroup& group : layout.groups) json.Int(group.window);
  json.EndArray();
  json.Key("tiers");
  json.BeginArray();
  for (int i = 0; tiers != nullptr && i < tiers->num_tiers(); ++i) {
    json.String(NameOf(tiers->tier(i).kind()));
  }
  json.EndArray();
  json.Key("blocks");
  json.BeginObject();
  std::string letters;
  letters.reserve(blocks.size());
  for (const MappedBlock& block : blocks) letters += LetterOf(block.state);
  json.Key("state");
  json.String(letters);
  const size_t count = blocks.size();
  WriteColumn("references", count, [&](size_t i) { return blocks[i].references; }, json);
  WriteColumn("filled", count, [&](size_t i) { return blocks[i].filled; }, json);
  WriteColumn("group", count, [&](size_t i) { return blocks[i].group; }, json);
  WriteColumn("request", count, [&](size_t i) { return owned.requests[i]; }, json);
  const auto age_of = [&](size_t i) {
    return static_cast<int64_t>(std::max(now_ms - blocks[i].changed_ms, 0.0));
  };
  WriteColumn("age_ms", count, age_of, json);
  WriteColumn("tiers", count, [&](size_t i) { return TiersOf(blocks[i], tiers); }, json);
  json.EndObject();
  json.EndObject();
  return body;
}

}  // namespace quire
