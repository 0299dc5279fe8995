#include "kv/block_pool.h"

#include <algorithm>

#include "base/bytes.h"

namespace quire {

Result<BlockPool> BlockPool::Create(KvLayout layout, int num_blocks) {
  const auto bytes = CheckedMul(layout.block_bytes, static_cast<uint64_t>(std::max(num_blocks, 0)));
  if (num_blocks < 1 || !bytes) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "a KV cache of {} blocks of {} bytes; expected at least one block", num_blocks,
                     layout.block_bytes);
  }
  QUIRE_ASSIGN_OR_RETURN(HugeBuffer arena, HugeBuffer::Allocate(*bytes));
  return BlockPool(std::move(layout), std::move(arena), num_blocks);
}

BlockPool::BlockPool(KvLayout layout, HugeBuffer arena, int num_blocks)
    : layout_(std::move(layout)), arena_(std::move(arena)), used_(num_blocks, false) {}

std::optional<BlockId> BlockPool::Take() {
  BlockId block = num_touched_;
  if (!returned_.empty()) {
    block = returned_.back();
    returned_.pop_back();
  } else if (num_touched_ < num_blocks()) {
    ++num_touched_;
  } else {
    return std::nullopt;
  }
  used_[block] = true;
  return block;
}

void BlockPool::Return(BlockId block) {
  QUIRE_CHECK(block >= 0 && block < num_blocks() && used_[block], "block {}", block);
  used_[block] = false;
  returned_.push_back(block);
}

PagedKvView BlockPool::view() const {
  return {.base = arena_.data(),
          .block_bytes = layout_.block_bytes,
          .type = layout_.type,
          .layers = layout_.layers};
}

void BlockPool::CheckInvariants() const {
  std::vector<bool> seen(used_.size(), false);
  for (const BlockId block : returned_) {
    QUIRE_CHECK(block >= 0 && block < num_touched_, "returned block {}", block);
    QUIRE_CHECK(!used_[block], "block {} is free and used", block);
    QUIRE_CHECK(!seen[block], "block {} is free twice", block);
    seen[block] = true;
  }
  QUIRE_CHECK(std::find(used_.begin() + num_touched_, used_.end(), true) == used_.end(),
              "a block beyond the {} taken so far is used", num_touched_);
  const auto held = std::ranges::count(used_, true);
  QUIRE_CHECK(num_free() + held == num_blocks(), "{} free, {} used of {}", num_free(), held,
              num_blocks());
}

}  // namespace quire
