// What the cache does for tiers (kv/tiers/): gives blocks away to be kept elsewhere, and takes in
// what comes back.
#include <algorithm>

#include "base/check.h"
#include "kv/kv_cache.h"
#include "kv/prefix_index.h"

namespace quire {
namespace {

// Of a block that nothing has been written to by a tier.
constexpr int kUnknownGroup = -1;

}  // namespace

bool KvCache::OfferBlock(BlockId block) {
  const PrefixIndex::Node& node = *index_->NodeOf(block);
  StoredBlock stored{.id = node.id,
                     .parent = node.parent,
                     .root = node.place.root,
                     .entry = node.place.entry,
                     .tokens = node.token_ids};
  while (node.blocks[stored.group] != block) ++stored.group;
  const std::span<const std::byte> payload(pool_.view().Block(block),
                                           layout().groups[stored.group].bytes);
  if (!offer_(stored, payload)) return false;
  // One that is used again may be there already.
  if (fresh_.Contains(block)) Note(BlockVerb::kOffload, block, stored.group);
  fresh_.Remove(block);
  return true;
}

void KvCache::OfferIfFresh(BlockId block) {
  if (fresh_.Contains(block)) OfferBlock(block);
}

bool KvCache::OfferFresh() {
  const std::optional<BlockId> oldest = fresh_.Oldest();
  return oldest && OfferBlock(*oldest);
}

int64_t KvCache::OfferFresh(const BlockTables& tables) {
  int64_t num_taken = 0;
  for (const std::vector<BlockId>& table : tables.tables_) {
    for (const BlockId block : table) {
      if (block == kNoBlock || !fresh_.Contains(block)) continue;
      num_taken += OfferBlock(block) ? 1 : 0;
    }
  }
  return num_taken;
}

std::optional<BlockHold> KvCache::ReserveBlock() {
  if (pool_.num_available() == 0) return std::nullopt;
  const BlockId block = Allocate(kUnknownGroup);
  ++holds_[block];
  return BlockHold(*this, block);
}

std::span<std::byte> KvCache::Memory(const BlockHold& hold, int group) {
  return {pool_.view().Block(hold.block_), layout().groups[group].bytes};
}

void KvCache::Publish(BlockHold& hold, const StoredBlock& block) {
  const BlockContent content{.id = block.id, .parent = block.parent, .tokens = block.tokens};
  QUIRE_CHECK(pool_.filled(hold.block_) == 0, "block {} holds something", hold.block_);
  const PrefixIndex::Node* node = index_->Find(content);
  if (node != nullptr && node->blocks[block.group] != kNoBlock) {
    hold = *Hold(block);
    return;
  }
  pool_.SetFilled(hold.block_, kBlockSlots);
  if (!index_->Insert(content, block.group, hold.block_,
                      {.root = block.root, .entry = block.entry})) {
    return;
  }
  evicted_.Remove(block.parent, block.tokens);
  ++counters_.blocks_loaded;
  Note(BlockVerb::kRestore, hold.block_, block.group);
  if (offer_) fresh_.Add(hold.block_);  // a tier that is further away may have given it
}

std::optional<BlockHold> KvCache::Hold(const StoredBlock& block) {
  const PrefixIndex::Node* node =
      index_->Find({.id = block.id, .parent = block.parent, .tokens = block.tokens});
  if (node == nullptr || node->blocks[block.group] == kNoBlock) return std::nullopt;
  const BlockId held = node->blocks[block.group];
  Share(held, block.group);
  ++holds_[held];
  return BlockHold(*this, held);
}

void KvCache::ReleaseHold(BlockId block) {
  const auto held = holds_.find(block);
  QUIRE_CHECK(held != holds_.end(), "block {} is not held", block);
  if (--held->second == 0) holds_.erase(held);
  const PrefixIndex::Node* node = index_->NodeOf(block);
  const auto group_of = [&] {
    return static_cast<int>(std::ranges::find(node->blocks, block) - node->blocks.begin());
  };
  GiveBack(block, node == nullptr ? kUnknownGroup : group_of());
}

std::vector<BlockId> KvCache::HeldBlocks() const {
  std::vector<BlockId> blocks;
  for (const auto& [block, count] : holds_) blocks.insert(blocks.end(), count, block);
  return blocks;
}

void KvCache::FindEntry(IdentityChain& chain, std::span<const int32_t> tokens, int entry,
                        std::vector<bool>& has) const {
  const size_t begin = static_cast<size_t>(entry) * kBlockSlots;
  chain.Extend(tokens.first(begin + kBlockSlots));
  const PrefixIndex::Node* node = index_->Find({.id = chain.ids()[entry],
                                                .parent = chain.parent(entry),
                                                .tokens = tokens.subspan(begin, kBlockSlots)});
  for (int group = 0; group < layout().num_groups(); ++group) {
    has[group] = node != nullptr && node->blocks[group] != kNoBlock;
  }
}

}  // namespace quire
