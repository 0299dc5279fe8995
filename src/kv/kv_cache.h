// The KV cache: one pool of equal blocks, shared by content.
//
// A sequence holds its blocks through BlockTables, a move-only handle with one table a group of
// layers. A block whose 16 slots are filled gets an identity (kv/identity.h) and is found by it: by
// a running sequence's neighbour as well as after its owner is gone. So does an unfilled tail, when
// a prompt ends in it or its sequence ends. Of two blocks with the same content the second has no
// name and is free when given back. A block that nobody holds stays findable until its memory is
// needed; the order in which that happens is the order in which blocks were given back, the tail of
// a sequence before its head.
//
// Invariants (CheckInvariants):
//   1. Every block is used (held by at least one table or hold), cached (held by none, findable) or
//      free. used + cached + free == all.
//   2. A block's reference count is the number of table entries and holds that name it.
//   3. The slots of a findable block that hold tokens never change. A table writes only into blocks
//      that it alone holds and that are not filled.
//   4. The index names a block for (identity, group) at most once, and every named block has just
//      that identity, parent and token ids.
//   5. Every verb happens whole, or changes nothing and says so.
//   6. A block is fresh only while it is findable and filled.
// Used by one thread at a time; the memory of held blocks may be read and written by many.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kv/block_hold.h"
#include "kv/block_pool.h"
#include "kv/block_watch.h"
#include "kv/eviction_record.h"
#include "kv/fresh_blocks.h"
#include "kv/identity.h"
#include "kv/layout.h"
#include "kv/prefix_miss.h"
#include "kv/tiers/record.h"

namespace quire {

class KvCache;
class PrefixIndex;
struct BlockMap;
struct FoundPrefix;
struct PrefixEntry;

// What the cache holds of a prompt: plain data, true until the cache next changes.
struct PrefixMatch {
  int num_tokens = 0;       // entries that need not be computed
  int copied_tokens = 0;    // of them, those at the end that are copied out of a block that goes on
                            // otherwise or is not filled (0..15)
  int64_t blocks_used = 0;  // of the blocks taken over, those that others hold
  int64_t blocks_cached = 0;  // those that nobody holds: taking them leaves fewer to allocate
};

// The block tables of one sequence. Movable; giving it up gives its blocks back, findable.
// Invariants:
//   1. Entries exist for exactly positions 0..num_tokens() - 1 (in windowed groups: for those that
//      a step from num_tokens() on reads).
//   2. table(g)[p / 16] holds position p; entries that the group's window has left are kNoBlock.
class BlockTables {
 public:
  BlockTables(BlockTables&& other) noexcept;
  BlockTables& operator=(BlockTables&& other) noexcept;
  ~BlockTables();

  int num_tokens() const { return num_tokens_; }
  std::span<const BlockId> table(int group) const { return tables_[group]; }
  // [num_groups], as KvSequence::block_tables wants them; valid until the tables change.
  std::span<const std::span<const int32_t>> views() const;
  // Blocks held, over all groups.
  int64_t num_blocks() const;

 private:
  friend class KvCache;
  BlockTables(KvCache& cache, const Digest& root);

  KvCache* cache_ = nullptr;  // null in one that was moved from
  size_t registry_idx_ = 0;   // among the cache's
  IdentityChain chain_;       // of the whole blocks of tokens_, as far as they were named
  bool is_findable_ = true;
  int num_tokens_ = 0;
  std::vector<int32_t> tokens_;               // [num_tokens]
  std::vector<std::vector<BlockId>> tables_;  // [num_groups][...], equally long
  mutable std::vector<std::span<const int32_t>> views_;
};

// Blocks and bytes, exact at any moment.
struct KvUsage {
  int64_t total_blocks = 0;
  int64_t used_blocks = 0;    // held by sequences
  int64_t cached_blocks = 0;  // held by none, findable
  int64_t free_blocks = 0;
  int64_t filled_slots = 0;    // of used blocks: slots that hold a token
  size_t block_bytes = 0;      // of memory, each
  size_t committed_bytes = 0;  // of memory that the system has given

  int64_t available_blocks() const { return cached_blocks + free_blocks; }
};

// What has happened since the start.
struct KvCounters {
  int64_t blocks_committed = 0;  // filled and made findable
  // Cached content that was lost: gave way to what needed the block, went on in a copy's place
  // because no other block was left, or was dropped on demand.
  int64_t blocks_evicted = 0;
  int64_t blocks_taken_over = 0;
  int64_t blocks_dropped = 0;
  int64_t blocks_shared = 0;    // taken over as they are
  int64_t partial_hits = 0;     // matches that copied slots
  int64_t blocks_copied = 0;    // partial hits and copy-on-write
  int64_t window_releases = 0;  // blocks that a window left behind
  int64_t blocks_loaded = 0;    // published: filled by a tier
};

class KvCache {
 public:
  // kResourceExhausted, naming the bytes, where the address space cannot be had.
  static Result<std::unique_ptr<KvCache>> Create(KvLayout layout, int num_blocks);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  const KvLayout& layout() const { return pool_.layout(); }
  PagedKvView view() const { return pool_.view(); }
  KvUsage usage() const;
  const KvCounters& counters() const { return counters_; }

  // The longest prefix of `tokens` under the chain's root that is found, at most max_tokens
  // entries. Extends the chain as far as it looks. A block's token ids are compared, so that a
  // collision is a miss.
  // Where asked for, names the blocks that would be taken over as they are.
  PrefixMatch Match(IdentityChain& chain, std::span<const int32_t> tokens, int max_tokens,
                    std::vector<BlockId>* blocks = nullptr) const;

  // What findable sequences that begin with `tokens` have next: up to `most` tokens, mostly fewer.
  // Extends the chain over the whole blocks of `tokens`. Only good for a guess: other sequences
  // that begin alike may go on otherwise.
  std::vector<int32_t> Continuation(IdentityChain& chain, std::span<const int32_t> tokens,
                                    int most) const;

  // Why Match found `num_found` entries of `tokens` and not all but the last. Looks at the place
  // where they end alone, under the chain's root alone.
  PrefixMiss Explain(IdentityChain& chain, std::span<const int32_t> tokens, int num_found) const;
  // The time that evictions and changes of blocks are remembered with, and told against: the cache
  // reads no clock.
  void SetTime(double now_ms) {
    now_ms_ = now_ms;
    pool_.SetTime(now_ms);
  }

  // Is told of every change of a block; empty: nobody is.
  void SetWatch(BlockWatch watch) { watch_ = std::move(watch); }
  // What the changes that follow are told with.
  void SetPurpose(const BlockPurpose& purpose) { purpose_ = purpose; }

  // Tables that hold what Match finds: whole blocks shared, a partly shared one copied into a block
  // of its own (one a group). Nothing when too few blocks are available for the copies. Does not
  // change what is cached beyond that; a block copied from counts as given back just then, and one
  // that would have to be evicted for its own copy is taken over instead.
  std::optional<BlockTables> Acquire(const Digest& root, std::span<const int32_t> tokens,
                                     int max_tokens);
  // Empty tables whose blocks are never findable by others.
  BlockTables AcquirePrivate();

  // Makes room for entries up to end_position - 1: new blocks, and a copy of a shared block that is
  // to be written. False, and nothing changed, when too few blocks are available.
  [[nodiscard]] bool Reserve(BlockTables& tables, int end_position);
  // Blocks that Reserve would take out of those available.
  int64_t BlocksToReserve(const BlockTables& tables, int end_position) const;

  // The entries of the next tokens are in their slots (tokens: all of the sequence's up to there).
  // Filled blocks become findable, and the unfilled tail of more than one token; blocks that their
  // group's window has left are given back, the first first.
  void Commit(BlockTables& tables, std::span<const int32_t> tokens);

  // A second sequence with the same entries: all blocks are shared, the first to write copies. Not
  // between Reserve and Commit: what is shared is not written.
  BlockTables Fork(const BlockTables& tables);

  // A second hold of the same entries, by blocks that are findable: where another block has the
  // name of a content, that one is held and not the sequence's own. For what is to be found for as
  // long as the tables live; they are not written. Not between Reserve and Commit.
  BlockTables Keep(BlockTables& tables);

  // Blocks that giving the tables up would make available: those that nobody else holds.
  int64_t BlocksHeldAlone(const BlockTables& tables) const;

  // --- What tiers do (kv/tiers/) ---

  // Takes a whole block's content to keep it elsewhere, copying what it needs: true where it is
  // settled, false where it was not taken this time.
  using Offer = std::function<bool(const StoredBlock& block, std::span<const std::byte> payload)>;
  // From then on, contents that nothing but memory holds are *fresh*. A fresh block is offered when
  // it is evicted; the rest is up to OfferFresh. Any block is offered when it is used again: it may
  // have gone where it was kept, or be the next to go. Set before anything is computed.
  void SetOffer(Offer offer) { offer_ = std::move(offer); }
  int64_t num_fresh() const { return fresh_.size(); }
  // Offers the oldest fresh block. False where there is none, or it was not taken.
  bool OfferFresh();
  // Offers the fresh ones of the tables' blocks; how many were taken.
  int64_t OfferFresh(const BlockTables& tables);

  // An empty block, out of those available; nothing where there is none.
  std::optional<BlockHold> ReserveBlock();
  std::span<std::byte> Memory(const BlockHold& hold, int group);
  // The hold's block holds the content of `block`, all slots: it is findable. Where another block
  // has that name the hold takes hold of that one instead, and where the identity stands for
  // another content, of nothing that is found.
  void Publish(BlockHold& hold, const StoredBlock& block);
  // Takes hold of the findable block of a whole content; nothing where there is none.
  std::optional<BlockHold> Hold(const StoredBlock& block);
  // Blocks that holds hold, each as often as it is held.
  std::vector<BlockId> HeldBlocks() const;

  // Which groups have a block for a whole entry of `tokens`: has [num_groups]. Extends the chain to
  // that entry.
  void FindEntry(IdentityChain& chain, std::span<const int32_t> tokens, int entry,
                 std::vector<bool>& has) const;

  // Gives the memory of free blocks back to the system. Cached blocks stay.
  void ReturnIdleMemory();
  // Forgets everything that nobody holds.
  void DropCached();

  // Ends the process, saying what is wrong, when an invariant does not hold.
  void CheckInvariants() const;

 private:
  friend class BlockTables;
  friend class BlockHold;
  friend BlockMap MapBlocks(const KvCache& cache);
  friend std::vector<PrefixEntry> ListPrefixes(const KvCache& cache);
  explicit KvCache(BlockPool pool);

  PrefixMatch Describe(const FoundPrefix& found) const;
  void CopyBeginnings(const FoundPrefix& found, BlockTables& tables);
  void NameEntry(BlockTables& tables, int entry);
  void LeaveWindows(BlockTables& tables, int first_position);
  void Register(BlockTables& tables);
  void Release(BlockTables& tables);
  bool WritesTail(const BlockTables& tables, int end_position) const;

  // The block's name is forgotten, and with it that it is fresh.
  void Unname(BlockId block);
  // Offers a findable, filled block; false where it was not taken.
  bool OfferBlock(BlockId block);
  void OfferIfFresh(BlockId block);
  // The cached content of a block is lost, for this reason: nothing finds it any more.
  void Lose(BlockId block, std::string_view reason);
  void ReleaseHold(BlockId block);
  // An empty block; what it held is lost.
  BlockId TakeBlock();
  BlockId Allocate(int group);
  BlockId CopyBlock(BlockId from, int group);
  void Share(BlockId block, int group);
  void GiveBack(BlockId block, int group, std::string_view reason = {});
  bool IsFindable(BlockId block) const;
  // Tells the watch; `reason` takes the place of the purpose's.
  void Note(BlockVerb verb, BlockId block, int group, BlockId other = kNoBlock,
            std::string_view reason = {}) {
    if (watch_) TellWatch(verb, block, group, other, reason);
  }
  void TellWatch(BlockVerb verb, BlockId block, int group, BlockId other,
                 std::string_view reason) const;

  void CheckTables(const BlockTables& tables, std::vector<int>& references) const;

  BlockPool pool_;
  std::unique_ptr<PrefixIndex> index_;
  EvictionRecord evicted_;
  double now_ms_ = 0;
  std::vector<BlockTables*> registry_;  // that live, any order
  std::map<BlockId, int> holds_;        // by block, how many
  Offer offer_{};                       // empty: nothing is fresh
  FreshBlocks fresh_;
  KvCounters counters_;
  BlockWatch watch_{};
  BlockPurpose purpose_{};
};

}  // namespace quire
