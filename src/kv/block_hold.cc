#include "kv/block_hold.h"

#include "kv/kv_cache.h"

namespace quire {

BlockHold& BlockHold::operator=(BlockHold&& other) noexcept {
  if (this == &other) return *this;
  if (cache_ != nullptr) cache_->ReleaseHold(block_);
  cache_ = std::exchange(other.cache_, nullptr);
  block_ = other.block_;
  return *this;
}

BlockHold::~BlockHold() {
  if (cache_ != nullptr) cache_->ReleaseHold(block_);
}

}  // namespace quire
