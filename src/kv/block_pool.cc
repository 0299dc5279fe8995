#include "kv/block_pool.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.h"

namespace quire {

Result<BlockPool> BlockPool::Create(KvLayout layout, int num_blocks) {
  const auto bytes = CheckedMul(layout.block_bytes, static_cast<uint64_t>(std::max(num_blocks, 0)));
  if (num_blocks < 1 || layout.groups.empty() || !bytes) {
    return MakeError(
        ErrorCode::kInvalidArgument,
        "a KV cache of {} blocks of {} bytes in {} groups of layers; expected at least "
        "one block and one group",
        num_blocks, layout.block_bytes, layout.num_groups());
  }
  QUIRE_ASSIGN_OR_RETURN(Arena arena, Arena::Reserve(*bytes));
  return BlockPool(std::move(layout), std::move(arena), num_blocks);
}

BlockPool::BlockPool(KvLayout layout, Arena arena, int num_blocks)
    : layout_(std::move(layout)), arena_(std::move(arena)), num_blocks_(num_blocks) {}

std::optional<BlockPool::Taken> BlockPool::Take() {
  Taken taken;
  const bool has_touched_free = num_listed_ > num_cached_;
  if (!has_touched_free && num_touched() < num_blocks_) {
    taken.block = num_touched();
    blocks_.emplace_back();
  } else if (num_listed_ > 0) {
    taken = {.block = first_, .was_cached = blocks_[first_].is_cached};
    Unlink(taken.block);
  } else {
    return std::nullopt;
  }
  Block& block = blocks_[taken.block];
  block.references = 1;
  block.filled = 0;
  block.changed_ms = now_ms_;
  if (!block.is_committed) {
    arena_.Commit(taken.block * layout_.block_bytes, layout_.block_bytes);
    block.is_committed = true;
  }
  return taken;
}

void BlockPool::Share(BlockId id) {
  QUIRE_CHECK(id >= 0 && id < num_touched(), "block {} of {}", id, num_touched());
  Block& block = blocks_[id];
  if (block.references == 0) {
    QUIRE_CHECK(block.is_cached, "block {} is free", id);
    Unlink(id);
    filled_slots_ += block.filled;
    block.changed_ms = now_ms_;
  }
  ++block.references;
}

void BlockPool::GiveBack(BlockId id, bool is_findable) {
  Block& block = Held(id);
  if (--block.references > 0) return;
  filled_slots_ -= block.filled;
  block.changed_ms = now_ms_;
  if (is_findable) {
    PushBack(id);
  } else {
    PushFront(id);
  }
}

void BlockPool::Forget(BlockId id) {
  QUIRE_CHECK(id >= 0 && id < num_touched() && blocks_[id].is_cached, "block {} is not cached", id);
  Unlink(id);
  PushFront(id);
}

void BlockPool::SetFilled(BlockId id, int num_slots) {
  QUIRE_CHECK(num_slots >= 0 && num_slots <= kBlockSlots, "{} slots", num_slots);
  Block& block = Held(id);
  filled_slots_ += num_slots - block.filled;
  block.filled = static_cast<int16_t>(num_slots);
}

void BlockPool::Copy(BlockId from, BlockId to, size_t num_bytes) {
  Held(to);
  std::memcpy(view().Block(to), view().Block(from), num_bytes);
}

void BlockPool::ReturnIdleMemory() {
  const auto is_free = [](const Block& block) { return block.references == 0 && !block.is_cached; };
  // Runs of neighbours, so that a page shared by two free blocks goes too.
  for (auto begin = blocks_.begin(); begin != blocks_.end();) {
    const auto end = std::find_if_not(begin, blocks_.end(), is_free);
    if (end == begin) {
      ++begin;
      continue;
    }
    const size_t first_byte = (begin - blocks_.begin()) * layout_.block_bytes;
    // What follows the last block taken so far is idle as well.
    const size_t end_byte =
        end == blocks_.end() ? arena_.size() : (end - blocks_.begin()) * layout_.block_bytes;
    arena_.Decommit(first_byte, end_byte - first_byte);
    std::for_each(begin, end, [](Block& block) { block.is_committed = false; });
    begin = end;
  }
}

PagedKvView BlockPool::view() const {
  return {.base = arena_.data(),
          .block_bytes = layout_.block_bytes,
          .type = layout_.type,
          .layers = layout_.layers};
}

BlockPool::Block& BlockPool::Held(BlockId id) {
  QUIRE_CHECK(id >= 0 && id < num_touched(), "block {} of {}", id, num_touched());
  QUIRE_CHECK(blocks_[id].references > 0, "nobody holds block {}", id);
  return blocks_[id];
}

void BlockPool::PushFront(BlockId id) {
  Block& block = blocks_[id];
  block.filled = 0;
  block.previous = kNoBlock;
  block.next = std::exchange(first_, id);
  (block.next == kNoBlock ? last_ : blocks_[block.next].previous) = id;
  ++num_listed_;
}

void BlockPool::PushBack(BlockId id) {
  Block& block = blocks_[id];
  block.is_cached = true;
  block.next = kNoBlock;
  block.previous = std::exchange(last_, id);
  (block.previous == kNoBlock ? first_ : blocks_[block.previous].next) = id;
  ++num_listed_;
  ++num_cached_;
}

void BlockPool::Unlink(BlockId id) {
  Block& block = blocks_[id];
  (block.previous == kNoBlock ? first_ : blocks_[block.previous].next) = block.next;
  (block.next == kNoBlock ? last_ : blocks_[block.next].previous) = block.previous;
  --num_listed_;
  num_cached_ -= block.is_cached ? 1 : 0;
  block.is_cached = false;
}

void BlockPool::CheckInvariants() const {
  arena_.CheckInvariants();
  int num_listed = 0;
  int num_cached = 0;
  BlockId previous = kNoBlock;
  for (BlockId id = first_; id != kNoBlock; previous = id, id = blocks_[id].next) {
    QUIRE_CHECK(id >= 0 && id < num_touched(), "block {} of {} is listed", id, num_touched());
    const Block& block = blocks_[id];
    QUIRE_CHECK(++num_listed <= num_listed_, "the list goes round at block {}", id);
    QUIRE_CHECK(block.previous == previous, "block {} follows {}, not {}", id, previous,
                block.previous);
    QUIRE_CHECK(block.references == 0, "block {} is listed and held", id);
    num_cached += block.is_cached ? 1 : 0;
    QUIRE_CHECK(block.is_cached || num_cached == 0, "free block {} stands after a cached one", id);
    QUIRE_CHECK(block.is_cached == (block.filled > 0), "block {} with {} slots filled", id,
                block.filled);
  }
  QUIRE_CHECK(last_ == previous, "the list ends at {}, not {}", previous, last_);
  QUIRE_CHECK(num_listed == num_listed_ && num_cached == num_cached_,
              "{} listed and {} cached; counted {} and {}", num_listed, num_cached, num_listed_,
              num_cached_);
  int num_used = 0;
  int64_t filled_slots = 0;
  for (const Block& block : blocks_) {
    QUIRE_CHECK(block.references >= 0 && block.filled >= 0 && block.filled <= kBlockSlots);
    if (block.references == 0) continue;
    QUIRE_CHECK(!block.is_cached && block.is_committed);
    ++num_used;
    filled_slots += block.filled;
  }
  QUIRE_CHECK(num_used + num_listed == num_touched(), "{} used and {} listed of {}", num_used,
              num_listed, num_touched());
  QUIRE_CHECK(filled_slots == filled_slots_, "{} slots filled, {} counted", filled_slots,
              filled_slots_);
  QUIRE_CHECK(num_used == this->num_used() && num_used + num_cached_ + num_free() == num_blocks_);
}

}  // namespace quire
