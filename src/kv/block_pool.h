// The blocks of the KV cache: who holds them, and which goes next when memory is needed.
//
// Owns the arena and a reference count a block. A block is in one of three states:
//
//   used    held by at least one table entry
//   cached  held by none, its content findable; Share takes it back into use
//   free    held by none, nothing in it
//
//   Take: free or cached -> used      Share: used, cached -> used
//   GiveBack: used -> used, cached or free      Forget: cached -> free
//
// Free and cached blocks are in one list, the next to be taken first: those without content, the
// last given back first as its memory is committed and near; then the cached ones in the order in
// which they were given back. So the free list is the cache, and its order the order of eviction.
// Blocks never taken so far stand between the two and cost no memory.
//
// Invariants:
//   1. A block is in the list exactly if it has been taken before and nobody holds it.
//   2. No block with content stands before one without.
//   3. num_used() + num_cached() + num_free() == num_blocks().
// Every verb takes constant time. Used by one thread at a time; the memory of held blocks may be
// read and written by many.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kv/arena.h"
#include "kv/layout.h"

namespace quire {

using BlockId = int32_t;

class BlockPool {
 public:
  struct Taken {
    BlockId block = kNoBlock;
    bool was_cached = false;  // its content gave way: nothing may find it any more
  };

  // kInvalidArgument without blocks; kResourceExhausted, naming the bytes, where the address space
  // cannot be had.
  static Result<BlockPool> Create(KvLayout layout, int num_blocks);

  // The next block, with one holder and no filled slots. Nothing when all are used.
  std::optional<Taken> Take();
  // One more holder of a used or cached block.
  void Share(BlockId block);
  // One holder less. Of the last, is_findable says whether the content is worth keeping.
  void GiveBack(BlockId block, bool is_findable);
  // The content of a cached block is lost.
  void Forget(BlockId block);

  // Slots of a used block that hold a token.
  void SetFilled(BlockId block, int num_slots);
  // What the first num_bytes of a block hold, into another.
  void Copy(BlockId from, BlockId to, size_t num_bytes);

  // Gives the memory of free blocks back to the system.
  void ReturnIdleMemory();

  // The time that changes are remembered with: the pool reads no clock.
  void SetTime(double now_ms) { now_ms_ = now_ms; }

  int num_blocks() const { return num_blocks_; }
  int num_used() const { return num_touched() - num_listed_; }
  int num_cached() const { return num_cached_; }
  int num_free() const { return num_blocks_ - num_used() - num_cached_; }
  int num_available() const { return num_blocks_ - num_used(); }
  int64_t filled_slots() const { return filled_slots_; }  // of used blocks
  size_t committed_bytes() const { return arena_.committed_bytes(); }

  int references(BlockId block) const { return blocks_[block].references; }
  int filled(BlockId block) const { return blocks_[block].filled; }
  bool is_cached(BlockId block) const { return blocks_[block].is_cached; }
  // When the block last changed its state: was taken, or given back by its last holder.
  double changed_ms(BlockId block) const { return blocks_[block].changed_ms; }
  // Blocks taken at least once: 0..num_touched() - 1.
  int num_touched() const { return static_cast<int>(blocks_.size()); }
  // The cached block that is taken last; kNoBlock without any.
  BlockId last_cached() const { return num_cached_ == 0 ? kNoBlock : last_; }

  const KvLayout& layout() const { return layout_; }
  PagedKvView view() const;

  // Ends the process when an invariant does not hold.
  void CheckInvariants() const;

 private:
  struct Block {
    int32_t references = 0;
    int16_t filled = 0;
    bool is_cached = false;
    bool is_committed = false;
    BlockId previous = kNoBlock;  // in the list
    BlockId next = kNoBlock;
    double changed_ms = 0;
  };

  BlockPool(KvLayout layout, Arena arena, int num_blocks);
  Block& Held(BlockId block);
  void PushFront(BlockId block);
  void PushBack(BlockId block);
  void Unlink(BlockId block);

  KvLayout layout_;
  Arena arena_;  // [num_blocks][block_bytes]
  int num_blocks_;
  std::vector<Block> blocks_;  // [num_touched]
  BlockId first_ = kNoBlock;   // of the list
  BlockId last_ = kNoBlock;
  int num_listed_ = 0;
  int num_cached_ = 0;
  int64_t filled_slots_ = 0;
  double now_ms_ = 0;
};

}  // namespace quire
