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
    : layout_(std::move(layout)), arena_(std::move(arena)), used_(num_blocks, false) {
  free_.reserve(num_blocks);
  for (BlockId block = num_blocks - 1; block >= 0; --block) free_.push_back(block);
}

std::optional<BlockId> BlockPool::Take() {
  if (free_.empty()) return std::nullopt;
  const BlockId block = free_.back();
  free_.pop_back();
  used_[block] = true;
  return block;
}

void BlockPool::Return(BlockId block) {
  QUIRE_CHECK(block >= 0 && block < num_blocks() && used_[block], "block {}", block);
  used_[block] = false;
  free_.push_back(block);
}

PagedKvView BlockPool::view() const {
  return {.base = arena_.data(),
          .block_bytes = layout_.block_bytes,
          .type = layout_.type,
          .layers = layout_.layers};
}

void BlockPool::CheckInvariants() const {
  std::vector<bool> seen(used_.size(), false);
  for (const BlockId block : free_) {
    QUIRE_CHECK(block >= 0 && block < num_blocks(), "free block {}", block);
    QUIRE_CHECK(!used_[block], "block {} is free and used", block);
    QUIRE_CHECK(!seen[block], "block {} is free twice", block);
    seen[block] = true;
  }
  const auto held = std::ranges::count(used_, true);
  QUIRE_CHECK(num_free() + held == num_blocks(), "{} free, {} used of {}", num_free(), held,
              num_blocks());
}

}  // namespace quire
