#include "kv/arena.h"

#include <algorithm>
#include <utility>

namespace quire {

Result<Arena> Arena::Reserve(size_t size_bytes) {
  QUIRE_ASSIGN_OR_RETURN(HugeBuffer memory, HugeBuffer::Allocate(size_bytes));
  return Arena(std::move(memory));
}

void Arena::Commit(size_t offset, size_t size_bytes) {
  QUIRE_CHECK(offset <= size() && size_bytes <= size() - offset, "{} bytes at {} of {}", size_bytes,
              offset, size());
  if (size_bytes == 0) return;
  const size_t page_bytes = HugeBuffer::page_bytes();
  const size_t end = (offset + size_bytes - 1) / page_bytes + 1;
  if (is_committed_.size() < end) is_committed_.resize(end);
  for (size_t page = offset / page_bytes; page < end; ++page) {
    num_committed_ += is_committed_[page] ? 0 : 1;
    is_committed_[page] = true;
  }
}

void Arena::Decommit(size_t offset, size_t size_bytes) {
  memory_.Decommit(offset, size_bytes);
  const size_t page_bytes = HugeBuffer::page_bytes();
  const size_t end = std::min((offset + size_bytes) / page_bytes, is_committed_.size());
  for (size_t page = (offset + page_bytes - 1) / page_bytes; page < end; ++page) {
    num_committed_ -= is_committed_[page] ? 1 : 0;
    is_committed_[page] = false;
  }
}

void Arena::CheckInvariants() const {
  const auto marked = static_cast<size_t>(std::ranges::count(is_committed_, true));
  QUIRE_CHECK(marked == num_committed_, "{} pages marked, {} counted", marked, num_committed_);
}

}  // namespace quire
