#include "kv/block_table.h"

#include <utility>

namespace quire {
namespace {

size_t BlocksFor(int num_tokens) {
  return (static_cast<size_t>(num_tokens) + kBlockSlots - 1) / kBlockSlots;
}

}  // namespace

BlockTable::BlockTable(BlockTable&& other) noexcept
    : pool_(other.pool_), blocks_(std::exchange(other.blocks_, {})) {}

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(blocks_, other.blocks_);
  return *this;
}

bool BlockTable::Grow(int num_tokens) {
  const size_t wanted = BlocksFor(num_tokens);
  if (wanted > blocks_.size() && wanted - blocks_.size() > static_cast<size_t>(pool_->num_free())) {
    return false;
  }
  while (blocks_.size() < wanted) blocks_.push_back(*pool_->Take());
  return true;
}

void BlockTable::Shrink(int num_tokens) {
  const size_t wanted = BlocksFor(num_tokens);
  while (blocks_.size() > wanted) {
    pool_->Return(blocks_.back());
    blocks_.pop_back();
  }
}

}  // namespace quire
