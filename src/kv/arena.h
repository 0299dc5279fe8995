// The memory under the blocks: address space for all of them, committed as they are first used.
//
// Owns the address space. Counts the pages that it has let be written and not given back: what the
// process holds, except that a first touch may give it 2 MiB at once (base/huge_buffer.h), so up to
// that much more where the touched part ends.
//
// Invariant: committed_bytes() is the bytes of the pages that committed ranges touch.
// Used by one thread at a time; committed memory may be read and written by many.
#pragma once

#include <cstddef>
#include <vector>

#include "base/huge_buffer.h"

namespace quire {

class Arena {
 public:
  // kResourceExhausted, naming the bytes, where the address space cannot be had.
  static Result<Arena> Reserve(size_t size_bytes);

  std::byte* data() const { return memory_.data(); }
  size_t size() const { return memory_.size(); }
  size_t committed_bytes() const { return num_committed_ * HugeBuffer::page_bytes(); }

  // The range is about to be written. The system gives the memory when that happens.
  void Commit(size_t offset, size_t size_bytes);
  // Nothing in the range is wanted any more. Pages wholly inside go back to the system.
  void Decommit(size_t offset, size_t size_bytes);

  void CheckInvariants() const;

 private:
  explicit Arena(HugeBuffer memory) : memory_(std::move(memory)) {}

  HugeBuffer memory_;
  std::vector<bool> is_committed_;  // [pages up to the last that was]
  size_t num_committed_ = 0;        // pages
};

}  // namespace quire
