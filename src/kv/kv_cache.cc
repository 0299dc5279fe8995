#include "kv/kv_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kv/prefix_index.h"
#include "kv/prefix_match.h"

namespace quire {

// --- BlockTables ---

BlockTables::BlockTables(KvCache& cache, const Digest& root)
    : cache_(&cache), chain_(root), tables_(cache.layout().groups.size()) {
  cache_->Register(*this);
}

BlockTables::BlockTables(BlockTables&& other) noexcept : chain_(other.chain_.root()) {
  *this = std::move(other);
}

BlockTables& BlockTables::operator=(BlockTables&& other) noexcept {
  if (this == &other) return *this;
  if (cache_ != nullptr) cache_->Release(*this);
  cache_ = std::exchange(other.cache_, nullptr);
  registry_idx_ = other.registry_idx_;
  chain_ = std::move(other.chain_);
  is_findable_ = other.is_findable_;
  num_tokens_ = std::exchange(other.num_tokens_, 0);
  tokens_ = std::move(other.tokens_);
  tables_ = std::move(other.tables_);
  if (cache_ != nullptr) cache_->registry_[registry_idx_] = this;
  return *this;
}

BlockTables::~BlockTables() {
  if (cache_ != nullptr) cache_->Release(*this);
}

std::span<const std::span<const int32_t>> BlockTables::views() const {
  views_.assign(tables_.begin(), tables_.end());
  return views_;
}

int64_t BlockTables::num_blocks() const {
  int64_t num_blocks = 0;
  for (size_t group = 0; group < tables_.size(); ++group) {
    num_blocks += static_cast<int64_t>(tables_[group].size()) -
                  cache_->layout().groups[group].FirstEntryRead(num_tokens_);
  }
  return num_blocks;
}

// --- KvCache ---

Result<std::unique_ptr<KvCache>> KvCache::Create(KvLayout layout, int num_blocks) {
  QUIRE_ASSIGN_OR_RETURN(BlockPool pool, BlockPool::Create(std::move(layout), num_blocks));
  return std::unique_ptr<KvCache>(new KvCache(std::move(pool)));
}

KvCache::KvCache(BlockPool pool)
    : pool_(std::move(pool)),
      index_(std::make_unique<PrefixIndex>(layout().num_groups())),
      evicted_(pool_.num_blocks()) {}

KvCache::~KvCache() {
  QUIRE_CHECK(registry_.empty(), "{} sequences outlive their cache", registry_.size());
  QUIRE_CHECK(holds_.empty(), "{} held blocks outlive their cache", holds_.size());
}

KvUsage KvCache::usage() const {
  return {.total_blocks = pool_.num_blocks(),
          .used_blocks = pool_.num_used(),
          .cached_blocks = pool_.num_cached(),
          .free_blocks = pool_.num_free(),
          .filled_slots = pool_.filled_slots(),
          .block_bytes = layout().block_bytes,
          .committed_bytes = pool_.committed_bytes()};
}

PrefixMatch KvCache::Match(IdentityChain& chain, std::span<const int32_t> tokens, int max_tokens,
                           std::vector<BlockId>* blocks) const {
  const FoundPrefix found = FindPrefix(*index_, layout(), chain, tokens, max_tokens);
  for (int group = 0; group < layout().num_groups() && blocks != nullptr; ++group) {
    const int first = layout().groups[group].FirstEntryRead(found.num_tokens());
    for (int entry = first; entry < found.num_whole; ++entry) {
      blocks->push_back(found.nodes[entry]->blocks[group]);
    }
  }
  return Describe(found);
}

PrefixMiss KvCache::Explain(IdentityChain& chain, std::span<const int32_t> tokens,
                            int num_found) const {
  PrefixMiss miss{.position = num_found};
  if (num_found + 1 >= static_cast<int>(tokens.size())) return miss;
  const size_t begin = num_found / kBlockSlots * kBlockSlots;
  const size_t common = num_found - begin;
  chain.Extend(tokens.first(begin));
  const Digest& parent = chain.parent(begin / kBlockSlots);
  const auto rest = tokens.subspan(begin, std::min<size_t>(tokens.size() - begin, kBlockSlots));
  if (const auto evicted_ms = evicted_.Find(parent, rest, common + 1)) {
    miss.reason = MissReason::kEvicted;
    miss.evicted_ms_ago = std::max(0.0, now_ms_ - *evicted_ms);
    return miss;
  }
  const PrefixIndex::Node* node = index_->Nearest(parent, rest);
  if (node == nullptr || node->tokens().size() <= common) {
    miss.reason = MissReason::kNeverSeen;
    return miss;
  }
  if (node->tokens()[common] == rest[common]) {
    // Some group's block is there and another's is not, so that it was of no use.
    miss.reason = MissReason::kEvicted;
    miss.evicted_ms_ago = -1;
    return miss;
  }
  miss.reason = MissReason::kDiffers;
  auto held = node->tokens().subspan(common);
  while (true) {
    const size_t room = kBlockSlots - miss.cached_tokens.size();
    held = held.first(std::min(held.size(), room));
    miss.cached_tokens.insert(miss.cached_tokens.end(), held.begin(), held.end());
    if (node->num_tokens < kBlockSlots || miss.cached_tokens.size() == kBlockSlots) return miss;
    node = index_->Nearest(node->id, {});
    if (node == nullptr) return miss;
    held = node->tokens();
  }
}

PrefixMatch KvCache::Describe(const FoundPrefix& found) const {
  PrefixMatch match{.num_tokens = found.num_tokens(), .copied_tokens = found.num_copied};
  for (int group = 0; group < layout().num_groups(); ++group) {
    const int first = layout().groups[group].FirstEntryRead(found.num_tokens());
    for (int entry = first; entry < found.num_whole; ++entry) {
      const BlockId block = found.nodes[entry]->blocks[group];
      ++(pool_.is_cached(block) ? match.blocks_cached : match.blocks_used);
    }
  }
  return match;
}

std::vector<int32_t> KvCache::Continuation(IdentityChain& chain, std::span<const int32_t> tokens,
                                           int most) const {
  chain.Extend(tokens);
  const size_t num_whole = tokens.size() / kBlockSlots;
  Digest parent = chain.parent(num_whole);
  std::span<const int32_t> begun = tokens.subspan(num_whole * kBlockSlots);
  std::vector<int32_t> next;
  while (static_cast<int>(next.size()) < most) {
    const PrefixIndex::Node* node = index_->Nearest(parent, begun);
    if (node == nullptr || node->tokens().size() <= begun.size() ||
        !std::ranges::equal(begun, node->tokens().first(begun.size()))) {
      break;
    }
    const std::span<const int32_t> rest = node->tokens().subspan(begun.size());
    next.insert(next.end(), rest.begin(), rest.end());
    if (node->num_tokens < kBlockSlots) break;
    parent = node->id;
    begun = {};
  }
  next.resize(std::min<size_t>(next.size(), static_cast<size_t>(std::max(most, 0))));
  return next;
}

std::optional<BlockTables> KvCache::Acquire(const Digest& root, std::span<const int32_t> tokens,
                                            int max_tokens) {
  BlockTables tables(*this, root);
  const FoundPrefix found = FindPrefix(*index_, layout(), tables.chain_, tokens, max_tokens);
  const PrefixMatch match = Describe(found);
  if (found.num_copied > 0 && pool_.num_available() - match.blocks_cached < layout().num_groups()) {
    return std::nullopt;
  }
  for (int group = 0; group < layout().num_groups(); ++group) {
    std::vector<BlockId>& table = tables.tables_[group];
    table.resize(found.num_whole, kNoBlock);
    const int first = layout().groups[group].FirstEntryRead(found.num_tokens());
    for (int entry = first; entry < found.num_whole; ++entry) {
      table[entry] = found.nodes[entry]->blocks[group];
      Share(table[entry], group);
      if (offer_) OfferBlock(table[entry]);
    }
  }
  if (found.num_copied > 0) CopyBeginnings(found, tables);
  tables.num_tokens_ = found.num_tokens();
  tables.tokens_.assign(tokens.begin(), tokens.begin() + found.num_tokens());
  tables.chain_.Truncate(found.num_whole);  // what follows the prefix is not settled yet
  counters_.blocks_shared += match.blocks_used + match.blocks_cached;
  return tables;
}

// Blocks that are copied from are held meanwhile, so that none of them is taken for a copy, and
// count as given back just then. Where too few others are available, a block that nobody else holds
// is not copied but taken over: it would have been the one to evict for its own copy.
void KvCache::CopyBeginnings(const FoundPrefix& found, BlockTables& tables) {
  for (const BlockId source : found.sources) pool_.Share(source);
  int num_taken_over = layout().num_groups() - pool_.num_available();
  for (int group = 0; group < layout().num_groups(); ++group) {
    const BlockId source = found.sources[group];
    BlockId block = source;
    if (num_taken_over > 0 && pool_.references(source) == 1) {
      --num_taken_over;
      OfferIfFresh(source);
      Lose(source, "copy");
      Note(BlockVerb::kAllocate, source, group);
      ++counters_.blocks_taken_over;
    } else {
      block = CopyBlock(source, group);
      pool_.GiveBack(source, IsFindable(source));
    }
    pool_.SetFilled(block, found.num_copied);
    tables.tables_[group].push_back(block);
  }
  ++counters_.partial_hits;
}

BlockTables KvCache::AcquirePrivate() {
  BlockTables tables(*this, Digest{});
  tables.is_findable_ = false;
  return tables;
}

int64_t KvCache::BlocksToReserve(const BlockTables& tables, int end_position) const {
  int64_t num_blocks = 0;
  const bool writes_tail = WritesTail(tables, end_position);
  for (const std::vector<BlockId>& table : tables.tables_) {
    num_blocks +=
        std::max<int64_t>(0, BlocksFor(end_position) - static_cast<int64_t>(table.size()));
    if (writes_tail && pool_.references(table[tables.num_tokens_ / kBlockSlots]) > 1) ++num_blocks;
  }
  return num_blocks;
}

bool KvCache::Reserve(BlockTables& tables, int end_position) {
  if (BlocksToReserve(tables, end_position) > pool_.num_available()) return false;
  const bool writes_tail = WritesTail(tables, end_position);
  for (int group = 0; group < layout().num_groups(); ++group) {
    std::vector<BlockId>& table = tables.tables_[group];
    if (writes_tail) {
      BlockId& tail = table[tables.num_tokens_ / kBlockSlots];
      if (pool_.references(tail) > 1) {
        const BlockId copy = CopyBlock(tail, group);
        pool_.SetFilled(copy, pool_.filled(tail));
        GiveBack(tail, group);
        tail = copy;
      }
    }
    while (static_cast<int>(table.size()) < BlocksFor(end_position)) {
      table.push_back(Allocate(group));
    }
  }
  return true;
}

void KvCache::Commit(BlockTables& tables, std::span<const int32_t> tokens) {
  const int begin = tables.num_tokens_;
  const int end = static_cast<int>(tokens.size());
  QUIRE_CHECK(end >= begin, "{} tokens after {}", end, begin);
  if (end == begin) return;
  tables.tokens_.insert(tables.tokens_.end(), tokens.begin() + begin, tokens.end());
  tables.num_tokens_ = end;
  for (int entry = begin / kBlockSlots; entry < BlocksFor(end); ++entry) {
    const int filled = std::min(kBlockSlots, end - entry * kBlockSlots);
    for (const std::vector<BlockId>& table : tables.tables_) {
      QUIRE_CHECK(entry < static_cast<int>(table.size()), "entry {} is not reserved", entry);
      QUIRE_CHECK(pool_.references(table[entry]) == 1, "block {} was written by one of {} holders",
                  table[entry], pool_.references(table[entry]));
      pool_.SetFilled(table[entry], filled);
    }
    // A tail that grows token by token is named when it is filled or given back; that of a prompt
    // at once, so that an equal prompt need not wait for it.
    if (filled == kBlockSlots || end - begin > 1) NameEntry(tables, entry);
  }
  LeaveWindows(tables, begin);
}

BlockTables KvCache::Fork(const BlockTables& tables) {
  BlockTables fork(*this, tables.chain_.root());
  fork.chain_ = tables.chain_;
  fork.is_findable_ = tables.is_findable_;
  fork.num_tokens_ = tables.num_tokens_;
  fork.tokens_ = tables.tokens_;
  for (int group = 0; group < layout().num_groups(); ++group) {
    // Blocks that are reserved and hold nothing yet are not shared.
    const auto held = tables.table(group).first(BlocksFor(tables.num_tokens_));
    fork.tables_[group].assign(held.begin(), held.end());
    for (const BlockId block : held) {
      if (block != kNoBlock) Share(block, group);
    }
  }
  return fork;
}

BlockTables KvCache::Keep(BlockTables& tables) {
  BlockTables kept = Fork(tables);
  const std::span<const int32_t> tokens = tables.tokens_;
  for (int entry = 0; entry < BlocksFor(tables.num_tokens_); ++entry) {
    NameEntry(tables, entry);  // whose namesake has gone since
    const size_t begin = static_cast<size_t>(entry) * kBlockSlots;
    const auto held = tokens.subspan(begin, std::min<size_t>(kBlockSlots, tokens.size() - begin));
    const Digest& parent = tables.chain_.parent(entry);
    const Digest id = ChildOf(parent, held);
    const PrefixIndex::Node* node = index_->Find({.id = id, .parent = parent, .tokens = held});
    for (int group = 0; group < layout().num_groups() && node != nullptr; ++group) {
      BlockId& block = kept.tables_[group][entry];
      const BlockId namesake = node->blocks[group];
      // One that holds more already is growing under another's hands.
      if (block == kNoBlock || namesake == kNoBlock || namesake == block ||
          pool_.filled(namesake) != static_cast<int>(held.size())) {
        continue;
      }
      Share(namesake, group);
      GiveBack(std::exchange(block, namesake), group);
    }
  }
  kept.chain_ = tables.chain_;
  return kept;
}

int64_t KvCache::BlocksHeldAlone(const BlockTables& tables) const {
  int64_t num_blocks = 0;
  for (int group = 0; group < layout().num_groups(); ++group) {
    const int first = layout().groups[group].FirstEntryRead(tables.num_tokens_);
    for (const BlockId block : tables.table(group).subspan(first)) {
      num_blocks += pool_.references(block) == 1 ? 1 : 0;
    }
  }
  return num_blocks;
}

void KvCache::ReturnIdleMemory() { pool_.ReturnIdleMemory(); }

void KvCache::DropCached() {
  while (pool_.last_cached() != kNoBlock) {
    const BlockId block = pool_.last_cached();
    Lose(block, "dropped");
    pool_.Forget(block);
    ++counters_.blocks_dropped;
  }
}

// The tail first, the groups of a position together: what is given back first is evicted first, and
// a prefix is of use without its tail, not without its head.
void KvCache::Release(BlockTables& tables) {
  if (tables.num_tokens_ % kBlockSlots != 0) NameEntry(tables, tables.num_tokens_ / kBlockSlots);
  for (size_t entry = tables.tables_[0].size(); entry-- > 0;) {
    for (int group = 0; group < layout().num_groups(); ++group) {
      const BlockId block = tables.tables_[group][entry];
      if (block != kNoBlock) GiveBack(block, group);
    }
  }
  for (std::vector<BlockId>& table : tables.tables_) table.clear();
  registry_[tables.registry_idx_] = registry_.back();
  registry_[tables.registry_idx_]->registry_idx_ = tables.registry_idx_;
  registry_.pop_back();
  tables.cache_ = nullptr;
}

// Before a step ends (first_position), its windows reach further back than after it.
void KvCache::LeaveWindows(BlockTables& tables, int first_position) {
  const auto& groups = layout().groups;
  int begin = 0;
  int end = 0;
  for (const KvGroup& group : groups) {
    if (group.window == 0) continue;
    const int first = group.FirstEntryRead(first_position);
    begin = end == 0 ? first : std::min(begin, first);
    end = std::max(end, group.FirstEntryRead(tables.num_tokens_));
  }
  for (int entry = begin; entry < end; ++entry) {
    for (size_t group = 0; group < groups.size(); ++group) {
      BlockId& block = tables.tables_[group][entry];
      if (block == kNoBlock || entry >= groups[group].FirstEntryRead(tables.num_tokens_)) continue;
      GiveBack(std::exchange(block, kNoBlock), static_cast<int>(group), "window");
      ++counters_.window_releases;
    }
  }
}

// Makes an entry's blocks findable by the tokens that they hold. A block that was named when it
// held fewer is named anew; one whose content another block holds already stays without a name.
void KvCache::NameEntry(BlockTables& tables, int entry) {
  if (!tables.is_findable_) return;
  const auto tokens = std::span<const int32_t>(tables.tokens_).subspan(entry * kBlockSlots);
  const auto held = tokens.first(std::min<size_t>(tokens.size(), kBlockSlots));
  const bool is_filled = held.size() == kBlockSlots;
  tables.chain_.Extend(std::span(tables.tokens_).first((entry + is_filled) * kBlockSlots));
  const Digest& parent = tables.chain_.parent(entry);
  const Digest id = is_filled ? tables.chain_.ids()[entry] : ChildOf(parent, held);
  for (int group = 0; group < layout().num_groups(); ++group) {
    const BlockId block = tables.tables_[group][entry];
    if (block == kNoBlock) continue;
    if (const PrefixIndex::Node* node = index_->NodeOf(block)) {
      if (node->num_tokens == static_cast<int>(held.size())) continue;
      Unname(block);
    }
    const bool is_named = index_->Insert({.id = id, .parent = parent, .tokens = held}, group, block,
                                         {.root = tables.chain_.root(), .entry = entry});
    if (is_named) evicted_.Remove(parent, held);
    if (!is_named || !is_filled) continue;
    if (offer_) fresh_.Add(block);
    ++counters_.blocks_committed;
    Note(BlockVerb::kFill, block, group);
  }
}

bool KvCache::WritesTail(const BlockTables& tables, int end_position) const {
  return tables.num_tokens_ % kBlockSlots != 0 && end_position > tables.num_tokens_;
}

void KvCache::Unname(BlockId block) {
  index_->Erase(block);
  fresh_.Remove(block);
}

void KvCache::Lose(BlockId block, std::string_view reason) {
  const PrefixIndex::Node* node = index_->NodeOf(block);
  const auto group = std::ranges::find(node->blocks, block) - node->blocks.begin();
  evicted_.Add(node->parent, node->tokens(), now_ms_);
  Unname(block);
  Note(BlockVerb::kEvict, block, static_cast<int>(group), kNoBlock, reason);
}

BlockId KvCache::TakeBlock() {
  const std::optional<BlockPool::Taken> taken = pool_.Take();
  QUIRE_CHECK(taken.has_value(), "no block is available");
  if (taken->was_cached) {
    OfferIfFresh(taken->block);
    Lose(taken->block, "allocation");
    ++counters_.blocks_evicted;
  }
  return taken->block;
}

BlockId KvCache::Allocate(int group) {
  const BlockId block = TakeBlock();
  Note(BlockVerb::kAllocate, block, group);
  return block;
}

BlockId KvCache::CopyBlock(BlockId from, int group) {
  const BlockId copy = TakeBlock();
  pool_.Copy(from, copy, layout().groups[group].bytes);
  ++counters_.blocks_copied;
  Note(BlockVerb::kCopyOnWrite, copy, group, from);
  return copy;
}

void KvCache::Share(BlockId block, int group) {
  pool_.Share(block);
  Note(BlockVerb::kShare, block, group);
}

void KvCache::GiveBack(BlockId block, int group, std::string_view reason) {
  pool_.GiveBack(block, IsFindable(block));
  Note(BlockVerb::kRelease, block, group, kNoBlock, reason);
}

bool KvCache::IsFindable(BlockId block) const { return index_->NodeOf(block) != nullptr; }

void KvCache::TellWatch(BlockVerb verb, BlockId block, int group, BlockId other,
                        std::string_view reason) const {
  BlockPurpose purpose = purpose_;
  if (!reason.empty()) purpose.reason = reason;
  watch_({.verb = verb,
          .block = block,
          .other = other,
          .group = group,
          .references = verb == BlockVerb::kEvict ? 0 : pool_.references(block),
          .is_findable = IsFindable(block),
          .purpose = purpose});
}

void KvCache::Register(BlockTables& tables) {
  tables.registry_idx_ = registry_.size();
  registry_.push_back(&tables);
}

// --- Checks ---

void KvCache::CheckInvariants() const {
  pool_.CheckInvariants();
  index_->CheckInvariants();
  std::vector<int> references(pool_.num_touched(), 0);
  for (const auto& [block, count] : holds_) references[block] += count;
  for (size_t idx = 0; idx < registry_.size(); ++idx) {
    QUIRE_CHECK(registry_[idx]->registry_idx_ == idx && registry_[idx]->cache_ == this);
    CheckTables(*registry_[idx], references);
  }
  for (BlockId block = 0; block < pool_.num_touched(); ++block) {
    QUIRE_CHECK(references[block] == pool_.references(block),
                "block {} is held by {} entries, counted {}", block, references[block],
                pool_.references(block));
    const PrefixIndex::Node* node = index_->NodeOf(block);
    const bool is_held = references[block] > 0;
    QUIRE_CHECK(is_held || pool_.is_cached(block) == (node != nullptr),
                "block {}: cached {}, named {}", block, pool_.is_cached(block), node != nullptr);
    QUIRE_CHECK(!fresh_.Contains(block) || (node != nullptr && node->num_tokens == kBlockSlots),
                "block {} is fresh and holds no whole content", block);
    if (node == nullptr) continue;
    QUIRE_CHECK(node->num_tokens == pool_.filled(block) ||
                    (is_held && node->num_tokens < pool_.filled(block)),
                "block {} is named for {} tokens and holds {}", block, node->num_tokens,
                pool_.filled(block));
  }
}

void KvCache::CheckTables(const BlockTables& tables, std::vector<int>& references) const {
  const int num_tokens = tables.num_tokens_;
  QUIRE_CHECK(tables.tokens_.size() == static_cast<size_t>(num_tokens));
  for (int group = 0; group < layout().num_groups(); ++group) {
    const std::vector<BlockId>& table = tables.tables_[group];
    const int num_entries = static_cast<int>(table.size());
    QUIRE_CHECK(num_entries >= BlocksFor(num_tokens) && table.size() == tables.tables_[0].size(),
                "{} entries for {} tokens", num_entries, num_tokens);
    const int first = layout().groups[group].FirstEntryRead(num_tokens);
    for (int entry = 0; entry < num_entries; ++entry) {
      const BlockId block = table[entry];
      QUIRE_CHECK((block == kNoBlock) == (entry < first), "entry {} of group {} is {}", entry,
                  group, block);
      if (block == kNoBlock) continue;
      QUIRE_CHECK(block >= 0 && block < pool_.num_touched(), "block {}", block);
      ++references[block];
      const int filled = std::clamp(num_tokens - entry * kBlockSlots, 0, kBlockSlots);
      QUIRE_CHECK(pool_.filled(block) == filled, "block {} holds {} tokens, counted {}", block,
                  filled, pool_.filled(block));
      QUIRE_CHECK(filled > 0 || pool_.references(block) == 1, "empty block {} is shared", block);
      const PrefixIndex::Node* node = index_->NodeOf(block);
      if (node == nullptr) continue;
      QUIRE_CHECK(tables.is_findable_, "private block {} has a name", block);
      const auto held = std::span(tables.tokens_).subspan(entry * kBlockSlots, filled);
      QUIRE_CHECK(node->blocks[group] == block && node->num_tokens <= filled &&
                      node->parent == tables.chain_.parent(entry) &&
                      std::ranges::equal(node->tokens(), held.first(node->num_tokens)),
                  "block {} is named for what it does not hold", block);
    }
  }
}

}  // namespace quire
